"""The effects of a change: specs before and after, the report, and bases that cannot be read."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM
from ci_compiler.hardware import tables
from ci_compiler.plan.pipeline import Plan, plan
from ci_compiler.reports.diff import ChangeGroup, PlanDifference, build_inputs, diff
from ci_compiler.reports.diff_markdown import NOTHING, code, markdown
from ci_compiler.reports.forecast import forecast
from ci_compiler.spec.build import BUNDLED, bundled_spec, parse_spec
from tests.checkers import require
from tests.merges import merge_request
from tests.specs import PIN, documents, small, spec_of

OTHER_PIN = "0123456789abcdef0123456789abcdef01234567"
Edit = Callable[[dict[str, Any]], None]


def planned(edit: Edit | None = None) -> Plan:
    document = small(releases={"2.8.0": {"torchvision": "0.23"}})
    document["branches"]["main"]["nixpkgs"] = "f" * 40
    if edit is not None:
        edit(document)
    return plan(spec_of(document))


def changed(edit: Edit) -> PlanDifference:
    return diff(planned(), planned(edit))


def names(groups: tuple[ChangeGroup, ...]) -> set[str]:
    return {name for group in groups for name in group.names}


def put(value: Any, *path: str) -> Edit:
    """The edit that sets the value at `path`."""

    def edit(document: dict[str, Any]) -> None:
        for key in path[:-1]:
            document = document[key]
        document[path[-1]] = value

    return edit


def lines(found: PlanDifference) -> list[str]:
    """The lines of the list of changes that is not collapsed."""
    return [line.removeprefix("- ") for line in markdown(found).split("\n\n")[1].splitlines()]


def both(tail: str) -> str:
    """The two variants of a cell, as a short list names them."""
    return f"`pytorch-python313-{tail}`, `torchvision-python313-{tail}` on `main`"


# The description of a change.


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (put({}, "matrix", "gpus", "sm80"), ["`sm80` on `main`: 4 added"]),
        (put({"isas": ["avx", "avx512"]}, "matrix", "gpus", "sm61"), ["`sm61` on `main`: 4 added"]),
        (put(["3.12", "3.13"], "matrix", "python"), ["`Python 3.12` on `main`: 8 added"]),
        (put(["avx", "avx2", "avx512"], "matrix", "isas", "x86_64-linux"), ["`avx` on `main`: 4 added"]),
        (put({"isas": ["avx2"]}, "matrix", "gpus", "sm90"),
         [f"{both('cuda12_8-sm90-avx512')}: 2 removed"]),
        (put(OTHER_PIN, "branches", "main", "nixpkgs"), ["all of `main`: 8 rebuilt (`nixpkgs fffffff → 0123456`)"]),
        (put("2.8.1", "branches", "main", "versions", "pytorch"),
         ["all of `main`: 8 rebuilt (`version of pytorch 2.8.0 → 2.8.1`)"]),
        (put("0.23.1", "branches", "main", "versions", "torchvision"),
         ["`torchvision` on `main`: 4 rebuilt (`version of torchvision 0.23.0 → 0.23.1`)"]),
        (put(True, "packages", "pytorch", "capabilities"),
         [("`pytorch-python313-cuda12_8-sm90-avx2`, `pytorch-python313-cuda12_8-sm90-avx512` on `main`: 2 rebuilt "
          "(`config.cudaCapabilities, so its CUDA libraries are rebuilt too`)"),
          ("`torchvision-python313-cuda12_8-sm90-avx2`, `torchvision-python313-cuda12_8-sm90-avx512` on `main`: "
           "2 rebuilt (`what it is built with`)")]),
        (put({"gpu": {"USE_X": "1"}}, "packages", "torchvision", "environment"),
         [("`torchvision-python313-cuda12_8-sm90-avx2`, `torchvision-python313-cuda12_8-sm90-avx512` on `main`: "
          "2 rebuilt (`environment of torchvision`)")]),
        (put({"cudaSupport": True}, "packages", "torchvision", "arguments"),
         ["`torchvision` on `main`: 4 rebuilt (`arguments of torchvision`)"]),
        (put(16, "packages", "torchvision", "jobs"),
         ["`torchvision` on `main`: 4 rebuilt (`compile jobs of torchvision 32 → 16`)"]),
        (put({"pytorch": "pytorch28"}, "branches", "main", "pnames"),
         ["all of `main`: 8 rebuilt (`pname of pytorch pytorch → pytorch28`)"]),
        (put(["torch-cccl"], "branches", "main", "work-arounds"), ["all of `main`: 8 rebuilt (`work-arounds`)"]),
        (put([], "packages", "torchvision", "needs"),
         ["`torchvision` on `main`: 4 rebuilt (`needs of torchvision`)"]),
        (put("12.9", "branches", "main", "cuda"), ["`sm90` on `main`: 4 added", "`sm90` on `main`: 4 removed"]),
        (put("sm89", "runners", "h100", "gpu"),
         ["gpu-test `h100` → not run, 4 variants rerouted: `sm90` on `main`",
          ("new warning: `` no job goes to h100; remove it, or compare its `cpu`, `gpu` and `stages` with "
           "the variants (`ci-compile explain NAME` shows the pools of a variant) [unused-pool] ``"),
          ("no longer: `` what builder builds, h100 tests or publishes: without a `cache` to bring it there, "
          "this fails where they share no store [no-cache] ``")]),
    ],
)  # fmt: skip
def test_a_change_is_described_in_few_words(edit: Edit, said: list[str]) -> None:
    assert lines(changed(edit)) == said


def test_no_change_is_one_sentence() -> None:
    assert markdown(changed(lambda _: None)) == NOTHING == "Nothing changes."
    with_default = put({"cpu-test": 60}, "timeouts")
    assert markdown(changed(with_default)) == NOTHING


def test_cpu_variants_do_not_care_for_cuda() -> None:
    found = changed(put("12.9", "branches", "main", "cuda"))
    assert found.rebuilt == ()
    assert all("cuda" in name for name in names(found.added) | names(found.removed))


def test_descriptions_minutes_and_pools_rebuild_nothing() -> None:
    def edit(document: dict[str, Any]) -> None:
        document["packages"]["pytorch"] |= {"title": "PyTorch", "minutes": {"cpu": 1}, "disk": 5, "memory": 4}
        document["branches"]["main"] |= {"nixpkgs-hash": "sha256-" + "B" * 43 + "=", "allow-broken": True}
        document["owner"] = "another"
        document["runners"]["builder"]["count"] = 5

    found = changed(edit)
    assert not found.added + found.removed + found.rebuilt
    text = markdown(found)
    assert text.startswith("**No variant is added, removed or rebuilt**; 8 variants in all.")
    assert "- `owner`: `my-org` → `another`" in text
    assert "- `runners.builder.count`: `2` → `5`" in text
    assert "- `branches.main.nixpkgs-hash`: `sha256-AAAA" in text
    assert "A full build takes 2 h 41 min instead of 3 h 46 min." in text


def own(*packages: str) -> Edit:
    """The edit by which the recipes of `packages` are the repository's own, and pytorch has a variant of no axis."""

    def edit(document: dict[str, Any]) -> None:
        document["packages"]["pytorch"]["variants"] = {"pytorch-odd": {"system": "x86_64-linux"}}
        for name in packages:
            document["packages"][name]["recipes"] = "own"

    return edit


@pytest.mark.parametrize(
    ("edit", "with_one"),
    [
        (put(OTHER_PIN, "branches", "main", "nixpkgs"), 8),
        (put("2.8.1", "branches", "main", "versions", "pytorch"), 8),
        (put(["torch-cccl"], "branches", "main", "work-arounds"), 8),
        (put(16, "packages", "pytorch", "jobs"), 8),
        (put([], "packages", "torchvision", "needs"), 0),
    ],
)
def test_what_the_spec_says_of_own_recipes_rebuilds_none(edit: Edit, with_one: int) -> None:
    """`with_one`: what is rebuilt where torchvision has own recipes, which take the compiled ones of pytorch."""

    def found(*packages: str) -> PlanDifference:
        after = planned(lambda document: (own(*packages)(document), edit(document))[0])
        return diff(planned(own(*packages)), after)

    all_own = found("pytorch", "torchvision")
    assert not all_own.rebuilt
    assert "machine-hours" not in markdown(all_own)
    assert all_own.settings
    one_own = names(found("torchvision").rebuilt)
    assert len(one_own) == with_one
    assert "pytorch-odd" not in one_own


def test_a_recipe_that_becomes_an_own_one_is_rebuilt() -> None:
    (line,) = lines(changed(put("own", "packages", "torchvision", "recipes")))
    assert line == "`torchvision` on `main`: 4 rebuilt (`recipes of torchvision compiled → own`)"


def test_flags_and_targets_of_the_tables_are_build_inputs() -> None:
    before = planned()
    hardware = tables()
    isas = {**hardware.isas, "avx2": replace(hardware.isas["avx2"], flags=("-mavx2", "-mnew", "-mlonger-than-short"))}
    gpus = {**hardware.gpus, "sm90": replace(hardware.gpus["sm90"], dnn=False, summary="told otherwise")}
    after = plan(replace(before.spec, hardware=replace(hardware, isas=isas, gpus=gpus)))
    said = lines(diff(before, after))
    flags, target = "`flags of avx2`", "`target of sm90 9.0 with cuDNN → 9.0 without cuDNN`"
    assert said == [
        f"{both('cpu-avx2')}: 2 rebuilt ({flags})",
        f"{both('cuda12_8-sm90-avx2')}: 2 rebuilt ({flags}, {target})",
        f"{both('cuda12_8-sm90-avx512')}: 2 rebuilt ({target})",
    ]


def test_the_inputs_of_a_variant_include_those_of_its_dependencies() -> None:
    decided = planned()
    cell = decided.judged.cells[0]
    torch, vision = (build_inputs(decided, cell, variant) for variant in cell.variants)
    assert torch.items() < vision.items()
    assert (torch["nixpkgs"], torch["Python"], torch["system"]) == ("f" * 40, "3.13", "x86_64-linux")


def test_a_package_of_another_repository_rebuilds_what_needs_it_by_its_commit() -> None:
    def elsewhere(rev: str) -> Edit:
        hash_ = "sha256-" + "A" * 43 + "="
        repository = {"name": "my-org/build-pytorch", "rev": {"main": rev}, "hash": {"main": hash_}}
        return put({"repository": repository, "attribute": "torch"}, "packages", "pytorch")

    found = diff(planned(elsewhere(PIN)), planned(elsewhere(OTHER_PIN)))
    assert lines(found) == ["all of `main`: 4 rebuilt (`repository of pytorch`)"]


def test_variants_that_move_to_another_file_are_listed() -> None:
    before = planned(put(["3.11", "3.12", "3.13"], "matrix", "python"))
    moved = replace(before, shards=tuple(replace(shard, name=f"{shard.name}-x") for shard in before.shards[:1])
                    + before.shards[1:])  # fmt: skip
    found = diff(before, moved)
    (((old, new), variants),) = found.resharded.items()
    assert (old, new, len(variants)) == ("build-main-cpu", "build-main-cpu-x", 12)
    assert lines(found) == ["workflow `build-main-cpu` → `build-main-cpu-x`: 12 variants moved"]


def test_the_cost_is_the_forecasts() -> None:
    found = changed(put(OTHER_PIN, "branches", "main", "nixpkgs"))
    whole = forecast(planned())
    assert {cost.pool: (cost.jobs, cost.seconds) for cost in found.costs} == {
        one.pool.name: (one.jobs, one.seconds) for one in whole.pools
    }
    assert found.end == whole.end == found.full_before == found.full_after
    added = changed(put({}, "matrix", "gpus", "sm80"))
    assert "| `builder` | 12 | 4.7 |" in markdown(added)
    assert "`h100` |" not in markdown(added)


@pytest.mark.slow
def test_the_bundled_stacks_changes_are_short() -> None:
    text = BUNDLED.read_text("utf-8")
    before = plan(bundled_spec())

    def said(old: str, new: str) -> list[str]:
        assert text.count(old) >= 1
        return lines(diff(before, plan(parse_spec(text.replace(old, new, 1).encode(), shown="s"))))

    assert said("sm75: {branches: [cuda-13_0]}", "sm75: {branches: [cuda-12_9, cuda-13_0]}") == [
        "`sm75` on `cuda-12_9`: 18 added"
    ]
    assert said('python: ["3.13"]', 'python: ["3.12", "3.13"]') == [
        "`Python 3.12` on `main`: 132 added",
        "`Python 3.12` on `cuda-12_9`: 150 added",
        "`Python 3.12` on `cuda-13_0`: 177 added",
    ]
    assert said("gpu: sm90, cpu: [avx512bf16, avx512vnni]", "gpu: sm90, cpu: [avx512bf16]") == [
        f"gpu-test `h100` → not run, 9 variants rerouted: {of_vnni}"
        for of_vnni in ["; ".join(f"{cells} on `{branch}`" for branch, cells in vnni_cells())]
    ]


def vnni_cells() -> list[tuple[str, str]]:
    tails = {"main": "cuda12_8", "cuda-12_9": "cuda12_9", "cuda-13_0": "cuda13_0"}
    packages = ("pytorch", "torchvision", "torchaudio")
    return [
        (branch, ", ".join(f"`{package}-python313-{tail}-sm90-avx512vnni`" for package in packages))
        for branch, tail in tails.items()
    ]


def test_long_lists_are_folded_away() -> None:
    def edit(document: dict[str, Any]) -> None:
        document["matrix"]["gpus"] |= {gpu: {} for gpu in ("sm80", "sm86", "sm89")}

    text = markdown(changed(edit))
    open_text = text.split("<details>")[0] + text.split("</details>")[-1]
    assert "`sm80`, `sm86`, `sm89` on `main`: 12 added" in open_text
    assert "pytorch-python313" not in open_text
    assert text.count("`pytorch-python313-cuda12_8-sm8") == 12  # once as added, once with its tests


@pytest.mark.slow
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(documents(), documents())
def test_what_every_difference_keeps(one: dict[str, Any], other: dict[str, Any]) -> None:
    before, after = plan(spec_of(one)), plan(spec_of(other))
    forth, back = diff(before, after), diff(after, before)
    keys = [
        {(cell.branch, variant.name) for cell in decided.judged.cells for variant in cell.variants}
        for decided in (before, after)
    ]

    def told(groups: tuple[ChangeGroup, ...]) -> list[tuple[str, str]]:
        return sorted((group.branch, name) for group in groups for name in group.names)

    assert told(forth.added) == told(back.removed) == sorted(keys[1] - keys[0])
    assert told(forth.removed) == told(back.added) == sorted(keys[0] - keys[1])
    assert told(forth.rebuilt) == told(back.rebuilt)
    assert set(told(forth.rebuilt)) <= keys[0] & keys[1]
    assert forth.warnings_new == back.warnings_gone
    assert not diff(after, after)
    assert bool(forth) == (markdown(forth) != NOTHING)
    assert markdown(forth).count("<details>") == markdown(forth).count("</details>")


# Markdown.


@settings(deadline=None)
@given(st.text(st.sampled_from("`| \\<>*_[](){}#@!&ab\n\u202e\x00"), min_size=1, max_size=12))
def test_a_code_span_can_contain_any_text(text: str) -> None:
    tokens = MarkdownIt("commonmark").parseInline(f"a {code(text)} b")[0].children or []
    assert [token.type for token in tokens] == ["text", "code_inline", "text"]
    shown = "".join(char if char.isprintable() else " " for char in text)
    assert tokens[1].content.strip() == shown.strip()
    assert (tokens[0].content, tokens[2].content) == ("a ", " b")


def test_hostile_words_stay_words() -> None:
    hostile = "x` <img src=x onerror=y> @everyone #1 | [a](http://b) \u202e"
    found = replace(changed(put({}, "matrix", "gpus", "sm80")), warnings_new=(hostile,))
    rendered = MarkdownIt("commonmark").enable("table").render(markdown(found))
    assert "<img" not in rendered
    assert "<a " not in rendered
    assert "&lt;img src=x onerror=y&gt; @everyone #1 | [a](http://b)" in rendered
    assert "\u202e" not in rendered


# The base.


def git(root: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "init.defaultBranch=main"]
    done = subprocess.run(["git", "-C", root, *identity, *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with three commits: no spec, the small one, a broken one; in the tree, the small one with sm80."""
    require("git")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    root = tmp_path / "root"
    (root / ".github").mkdir(parents=True)
    git(root, "init", "-q")
    git(root, "commit", "-q", "--allow-empty", "-m", "none")
    git(root, "tag", "none")
    document = small()
    for tag, text in (("small", json.dumps(document)), ("broken", "version: 1\nowner: [a]\n")):
        (root / ".github/ci-matrix.yaml").write_text(text, "utf-8")
        git(root, "add", "-A")
        git(root, "commit", "-q", "-m", tag)
        git(root, "tag", tag)
    document["matrix"]["gpus"]["sm80"] = {}
    (root / ".github/ci-matrix.yaml").write_text(json.dumps(document), "utf-8")
    monkeypatch.chdir(root)
    return root


def ci(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    result = run(PROGRAM, ["diff", *argv])
    out, err = capsys.readouterr()
    return result, out, err


@pytest.mark.parametrize("base", ["small", "HEAD~1", "sha"])
def test_a_revision_is_compared_with(repository: Path, capsys: pytest.CaptureFixture[str], base: str) -> None:
    base = git(repository, "rev-parse", "small") if base == "sha" else base
    result, out, err = ci(capsys, base)
    assert (result, err) == (0, "")
    assert "- `sm80` on `main`: 4 added\n" in out


def test_a_pull_request_is_compared_with_what_it_is_merged_into(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    git(repository, "checkout", "-q", "-f", "-B", "main", "small")
    git(repository, "checkout", "-q", "-b", "topic")
    (repository / ".github/ci-matrix.yaml").write_text(json.dumps(small(owner="another")), "utf-8")
    git(repository, "commit", "-q", "-a", "-m", "topic")
    git(repository, "checkout", "-q", "main")
    (repository / "README.md").write_text("of others\n", "utf-8")
    git(repository, "add", "-A")
    git(repository, "commit", "-q", "-m", "others")
    event = merge_request(lambda *words: git(repository, *words), git(repository, "rev-parse", "topic"))
    (tmp_path / "event.json").write_text(json.dumps(event), "utf-8")
    monkeypatch.setenv("GITHUB_EVENT_NAME", "pull_request")
    monkeypatch.setenv("GITHUB_EVENT_PATH", str(tmp_path / "event.json"))
    result, out, err = ci(capsys, "--pull-request")
    assert (result, err) == (0, "")
    assert "- `owner`: `my-org` → `another`" in out
    assert ci(capsys, "main") == (0, out, "")
    git(repository, "checkout", "-q", "topic")
    result, out, err = ci(capsys, "--pull-request")
    assert (result, out) == (2, "")
    assert err.startswith("error: event: what is checked out is no merge of ")


@pytest.mark.usefixtures("repository")
def test_an_unchanged_tree_is_no_change(capsys: pytest.CaptureFixture[str], repository: Path) -> None:
    git(repository, "checkout", "-q", "small", "--", ".")
    assert ci(capsys, "small") == (0, "Nothing changes.\n", "")


def test_a_repository_without_a_spec_had_the_bundled_one(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (repository / ".github/ci-matrix.yaml").unlink()
    assert ci(capsys, "none") == (0, "Nothing changes.\n", "")


def test_a_folder_of_a_repository_has_its_own_spec(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    below = repository / "below"
    (repository / ".github").rename(repository / "aside")
    below.mkdir()
    (repository / "aside").rename(below / ".github")
    git(repository, "add", "-A")
    git(repository, "commit", "-q", "-m", "below")
    assert ci(capsys, "HEAD", "--root", str(below)) == (0, "Nothing changes.\n", "")


def test_a_spec_file_is_compared_with(repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = tmp_path / "base.yaml"
    base.write_text(json.dumps(small()), "utf-8")
    result, out, _ = ci(capsys, str(base))
    assert result == 0
    assert "`sm80` on `main`: 4 added" in out
    base.write_text("version: 1\n", "utf-8")
    result, out, err = ci(capsys, str(base), "--root", str(repository))
    assert (result, out) == (2, "")
    assert err.startswith(f"error: {base}:1:1: is no spec: none of the keys")


def test_another_spec_is_compared_with_itself_as_it_was(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (repository / "mine.yaml").write_text(json.dumps(small()), "utf-8")
    git(repository, "add", "mine.yaml")
    git(repository, "commit", "-q", "-m", "mine")
    assert ci(capsys, "HEAD", "--spec", "mine.yaml") == (0, "Nothing changes.\n", "")
    assert ci(capsys, "HEAD~1", "--spec", "mine.yaml") == (
        2, "", "error: HEAD~1:mine.yaml: no such file at that revision [spec-missing]\n"
    )  # fmt: skip


@pytest.mark.usefixtures("repository")
def test_an_invalid_base_is_reported_with_its_place(capsys: pytest.CaptureFixture[str]) -> None:
    result, out, err = ci(capsys, "broken")
    assert (result, out) == (2, "")
    assert "broken:.github/ci-matrix.yaml:2:8: owner" in err


def test_a_base_that_cannot_be_planned_is_reported_with_its_place(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = small()
    document["matrix"]["gpus"] = {"sm999": {}}
    (repository / "base.yaml").write_text(json.dumps(document, indent=1), "utf-8")
    result, _, err = ci(capsys, "base.yaml")
    assert result == 2
    assert err.startswith("error: base.yaml:")
    assert "unknown" in err


@pytest.mark.usefixtures("repository")
@pytest.mark.parametrize("base", ["nothing", "", "0" * 40, "small:", "../..", "a" * 5000, "small\n"])
def test_a_base_that_is_none_is_one_line(capsys: pytest.CaptureFixture[str], base: str) -> None:
    result, out, err = ci(capsys, base)
    assert (result, out, err.count("\n")) == (2, "", 1)
    assert "is no revision of this repository, and no spec file [unknown-base]\n" in err


def test_a_shallow_clone_says_how_to_deepen_it(
    repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shallow = tmp_path / "shallow"
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{repository}", str(shallow))
    base = git(repository, "rev-parse", "small")
    (shallow / ".github/ci-matrix.yaml").write_text(json.dumps(small()), "utf-8")
    result, out, err = ci(capsys, base, "--root", str(shallow))
    assert (result, out, err.count("\n")) == (2, "", 1)
    assert "the clone is shallow: `git fetch --unshallow`, or fetch-depth: 0 in checkout" in err


def test_no_repository_is_one_line(repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bare = tmp_path / "bare"
    (bare / ".github").mkdir(parents=True)
    (bare / ".github/ci-matrix.yaml").write_bytes((repository / ".github/ci-matrix.yaml").read_bytes())
    result, out, err = ci(capsys, "HEAD", "--root", str(bare))
    assert (result, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("error: HEAD: not a git repository")


def test_without_git_a_spec_file_still_does(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    result, _, err = ci(capsys, "HEAD")
    assert result == 2
    assert err.startswith("error: HEAD: git is not on PATH; on Debian: `apt-get install git`; give a spec file")
    assert ci(capsys, str(repository / ".github/ci-matrix.yaml")) == (0, "Nothing changes.\n", "")


@pytest.mark.parametrize("kind", ["link", "folder", "large"])
def test_what_no_spec_can_be_at_a_revision_is_refused(
    repository: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    path = repository / ".github/ci-matrix.yaml"
    text = path.read_text("utf-8")
    path.unlink()
    if kind == "link":
        path.symlink_to("elsewhere.yaml")
    elif kind == "folder":
        path.mkdir()
        (path / "file").write_text("x", "utf-8")
    else:
        path.write_text("#" * 1_000_001, "utf-8")
    git(repository, "add", "-A")
    git(repository, "commit", "-q", "-m", kind)
    if kind == "folder":
        (path / "file").unlink()
        path.rmdir()
    path.unlink(missing_ok=True)
    path.write_text(text, "utf-8")
    result, _, err = ci(capsys, "HEAD")
    assert result == 2
    assert err.startswith("error: HEAD:.github/ci-matrix.yaml: ")
    assert f" [spec-{'too-large' if kind == 'large' else 'unreadable'}]" in err
