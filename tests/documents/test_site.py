"""`ci-compile site` and the workflow of the page: the page embeds the plan safely and reproducibly."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from ci_compiler.cli.compile import main
from ci_compiler.documents.site.page import page
from ci_compiler.files.drift import MARK, is_ours
from ci_compiler.plan.pipeline import plan
from ci_compiler.spec.build import bundled_spec
from ci_compiler.sync.compiled import compile_files
from ci_compiler.workflows import tasks
from ci_compiler.workflows.common import PAGES
from ci_compiler.workflows.render import header
from ci_compiler.workflows.writer import dump
from tests.checkers import (
    actionlint_problems,
    jsonschema_problems,
    language_service_problems,
    shellcheck_problems,
    zizmor_problems,
)
from tests.specs import documents, small, spec_of


def embedded(text: str) -> Any:
    """The data in the page, as a browser reads it: up to the first end tag of a script."""
    _, inside = text.split('<script type="application/json" id="data">')
    return json.loads(inside.split("</script", 1)[0])


@pytest.mark.slow
@given(documents())
@settings(max_examples=15, deadline=None)
def test_the_page_contains_the_plan(document: dict[str, Any]) -> None:
    decided = plan(spec_of(document))
    data = embedded(page(decided))
    held = {(cell["branch"], f"{package}-{cell['suffix']}") for cell in data["cells"] for package in cell["packages"]}
    assert held == {(cell.branch, variant.name) for cell in decided.judged.cells for variant in cell.variants}
    files = compile_files(decided)
    assert {f"{data['workflows']}/{cell['shard']}.yml" for cell in data["cells"]} <= files.keys()
    assert len(data["left_out"]) == len(decided.judged.left_out)
    assert [cell["tested"] for cell in data["cells"]] == [
        [stage.name for stage in route.pools if stage.name.endswith("-test")] for route in decided.routes
    ]
    assert all(0 <= cell["route"] < len(data["routes"]) for cell in data["cells"])


def test_the_page_of_the_bundled_stack_is_small() -> None:
    assert len(page(plan(bundled_spec())).encode()) < 376_000


def test_nothing_ends_the_data_early() -> None:
    reason = "</script><script>alert(1)</script> <!-- <script> ]]>"
    matrix = small()["matrix"] | {"exclude": [{"variants": "*-cpu-avx2", "because": reason}]}
    text = page(plan(spec_of(small(matrix=matrix))))
    assert embedded(text)["left_out"][0]["reason"] == reason
    assert len(re.findall("<script", text)) == len(re.findall("</script", text)) == 2


def test_the_policy_allows_only_the_page_s_own_script_and_style() -> None:
    text = page(plan(bundled_spec()))
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    rules = dict(rule.strip().split(" ", 1) for rule in policy[1].split(";"))
    assert rules["default-src"] == "'none'"
    for tag, rule in (('<script type="module">', "script-src"), ("<style>", "style-src")):
        inside = text.split(tag)[1].split(f"</{tag[1:].split()[0].rstrip('>')}>")[0]
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert rules[rule] == f"'sha256-{digest}'"
    assert not re.search(r'(?:src|href|action)="(?!data:,)', text)


def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: str) -> tuple[int, str, str]:
    monkeypatch.setattr("sys.argv", ["ci-compile", "site", *words])
    code = main()
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.slow
def test_the_command_rewrites_its_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "a/site"
    code, out, err = run(capsys, monkeypatch, str(folder), "--repository", "my-org/build-pytorch")
    assert (code, err) == (0, "")
    assert out.startswith(f"wrote {folder / 'index.html'} (")
    [file] = folder.iterdir()
    first = file.read_text("utf-8")
    assert first.startswith(f"<!-- {MARK} from torch.yaml (bundled).")
    assert is_ours(file)
    assert embedded(first)["repository"] == "my-org/build-pytorch"
    assert run(capsys, monkeypatch, str(folder), "--repository", "my-org/build-pytorch")[0] == 0
    assert file.read_text("utf-8") == first


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--repository", "https://github.com/a/b"), "wrong-repository"),
        (("--repository", "a/b/c"), "wrong-repository"),
        (("--spec", "no.yaml"), "no such file"),
    ],
)
def test_wrong_input(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    said: str,
) -> None:
    code, _, err = run(capsys, monkeypatch, str(tmp_path / "site"), *words)
    assert code == 2
    assert said in err
    assert not (tmp_path / "site").exists()


def test_foreign_files_are_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "index.html").write_text("<p>mine</p>", "utf-8")
    code, _, err = run(capsys, monkeypatch, str(tmp_path))
    assert code == 2
    assert "index.html: was not written by ci-compile" in err
    assert (tmp_path / "index.html").read_text("utf-8") == "<p>mine</p>"
    (tmp_path / "file").write_text("", "utf-8")
    code, _, err = run(capsys, monkeypatch, str(tmp_path / "file"))
    assert code == 2
    assert "cannot be written" in err


def test_the_workflow_is_sound(tmp_path: Path) -> None:
    spec = bundled_spec()
    path = tmp_path / ".github/workflows" / PAGES
    files = compile_files(plan(spec)) | {
        f".github/workflows/{PAGES}": dump(tasks.pages(spec).node(), header=header(spec))
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    for checker in (jsonschema_problems, language_service_problems, actionlint_problems, shellcheck_problems):
        assert checker([path]) == []
    assert zizmor_problems([path], "pedantic", config=tmp_path / ".github/zizmor.yml") == []


def test_the_workflow_lets_only_the_last_job_write_pages() -> None:
    jobs: Any = tasks.pages(bundled_spec()).node()["jobs"]
    assert jobs["page"]["permissions"] == {"actions": "read", "contents": "read", "pages": "read"}
    assert jobs["deploy"]["permissions"] == {"pages": "write", "id-token": "write"}
    assert jobs["deploy"]["environment"]["name"] == "github-pages"
    assert tasks.pages(bundled_spec()).node()["permissions"] == {}


def test_the_job_that_keeps_the_issue_may_write_issues_and_keeps_the_history_without_pages() -> None:
    jobs: Any = tasks.pages(spec_of(small(**{"results-issue": True}))).node()["jobs"]
    write, keep = (step for step in jobs["page"]["steps"] if step["name"].startswith(("Write", "Keep the history")))
    assert write["run"].endswith(" --history --issue")
    assert "if" not in keep
    assert jobs["page"]["permissions"]["issues"] == "write"
    assert "issues" not in jobs["deploy"]["permissions"]
