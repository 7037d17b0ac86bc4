"""What `sync --push` starts: said in jobs and hours, refused where GitHub would cancel or overlook it, or in waves."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ci_compiler.errors import InputError
from ci_compiler.git import Git
from ci_compiler.plan.limits import Limit
from ci_compiler.plan.pipeline import Plan, plan
from ci_compiler.recipes.render import recipes
from ci_compiler.reports.load import load_of
from ci_compiler.spec.build import load_spec
from ci_compiler.sync.branches import BranchPlan
from ci_compiler.sync.compiled import compile_files
from ci_compiler.sync.starts import check_starts, start_in_waves, started_by
from ci_compiler.variant import RECIPES, SHARED
from tests.github.conftest import github
from tests.github.state import GitHub
from tests.recipes.subjects import spec_for
from tests.recipes.test_affected import Repository
from tests.specs import UNKNOWN_PIN

from .test_branches import heads, remote, repository, shown
from .test_carried import BUMPED, FILE, synced
from .test_pull_requests import pushed

__all__ = ["github", "pushed", "remote", "repository", "synced"]

LONG = BUMPED.replace("attribute: torch", "attribute: torch, minutes: {cpu: 1400, gpu: 1400}")
"""The change with builds of torch that take a day each."""


STACK: dict[str, Any] = {
    "pytorch": {"attribute": "torch", "shared": ["nix/torch"], "overlays": ["nix/o.nix"]},
    "torchvision": {"needs": ["pytorch"]},
    "mine": {},
}
CPU, GPU = ("python313-cpu-avx2", "python313-cuda12_8-sm90-avx2")
NEWER = [f"{package}-{cell}" for cell in (CPU, GPU) for package in ("pytorch", "torchvision")]


def decided(**changes: Any) -> Plan:
    return plan(spec_for(STACK, main={"nixpkgs": UNKNOWN_PIN}, **changes))


def plan_of(*changes: str, branch: str = "main") -> BranchPlan:
    """A plan that changes these files of all recipes."""
    one = decided()
    return BranchPlan(branch, "p", dict.fromkeys(changes, "x"), recipes(one.spec, one.judged, "main"), {}, 0, 0)


@pytest.mark.parametrize(
    ("changes", "started"),
    [
        (["README.md"], []),
        ([f"{RECIPES}/mine-{CPU}.nix"], [f"mine-{CPU}"]),
        ([f"{RECIPES}/pytorch-{GPU}.nix"], NEWER[2:]),
        ([f"{RECIPES}/torchvision-{GPU}.nix", f"{RECIPES}/mine-{GPU}.nix"], [f"mine-{GPU}", f"torchvision-{GPU}"]),
        (["nix/torch"], NEWER),
        (["nix/o.nix"], NEWER),
        ([f"{SHARED}/pytorch-python313-cuda12_8.nix"], NEWER[2:]),
        ([f"{SHARED}/torchvision-python313-cpu.nix", "README.md"], [f"torchvision-{CPU}"]),
        ([f"{SHARED}/shell/built-for.nix"], NEWER[2:]),
        ([f"{SHARED}-other/x"], []),
    ],
)
def test_a_push_starts_what_changes_and_what_is_built_after_it(changes: list[str], started: list[str]) -> None:
    assert started_by(decided(), [plan_of(*changes)]) == {"main": tuple(started)}
    assert started_by(decided(), [plan_of(*changes, branch="other")]) == {"other": ()}
    assert started_by(decided(), [plan_of()]) == {}


def test_what_a_push_starts_is_said_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    check_starts(decided(), [plan_of("README.md")], said.append, waves=False)
    assert said == []
    chosen = plan_of(f"{RECIPES}/mine-{CPU}.nix")
    check_starts(decided(), [chosen], said.append, waves=False)
    load = load_of(decided(), {("main", f"mine-{CPU}")}, publish=True)
    assert said == [f"the push starts {load}"]
    monkeypatch.setattr("ci_compiler.plan.limits.limit", lambda _: Limit(gate=1, limit=1))
    check_starts(decided(), [chosen], said.append, waves=False)
    many = [plan_of("README.md", "x"), plan_of("x", "y", branch="next")]
    check_starts(decided(), many, said.append, waves=True)
    with pytest.raises(InputError) as raised:
        check_starts(decided(), many, said.append, waves=False)
    message = "the push changes 2 files, and GitHub's path filters see 1; `--waves` starts the shards that changed by a"
    assert [str(one) for one in raised.value.findings] == [
        f"{branch}: {message} workflow instead [too-many-files]" for branch in ("main", "next")
    ]


def test_what_github_would_cancel_is_refused_unless_in_waves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ci_compiler.sync.starts.load_of", lambda *_, **__: SimpleNamespace(refusal="too many jobs"))
    check_starts(decided(), [plan_of()], print, waves=True)
    with pytest.raises(InputError) as raised:
        check_starts(decided(), [plan_of()], print, waves=False)
    assert str(raised.value) == "--push: too many jobs [queue-too-long]"


@pytest.mark.parametrize(
    ("on_push", "names", "inputs"),
    [
        (False, [f"mine-{CPU}"], {"about": "1 variant of main", "patterns": f"mine-{CPU}"}),
        (True, NEWER, {"about": "4 variants of main", "patterns": " ".join(NEWER), "publish": "true"}),
        (False, [*NEWER, f"mine-{CPU}", f"mine-{GPU}"], {"about": "6 variants of main"}),
        (False, [], None),
    ],
)
def test_waves_are_started_of_what_changed(
    on_push: bool, names: list[str], inputs: dict[str, str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Any] = []

    def start(client: object, _: Plan, given: dict[str, str]) -> str:
        started.append((client, given))
        return "url"

    monkeypatch.setattr("ci_compiler.sync.starts.start_waves", start)
    client: Any = object()
    urls = start_in_waves(client, decided(publish={"on-push": on_push}), {"main": names})
    assert list(urls) == ["url"] * bool(inputs)
    assert started == ([(client, {"branch": "main"} | inputs)] if inputs else [])


@pytest.fixture
def served(pushed: Repository, github: GitHub) -> GitHub:
    """GitHub with the compiled workflows."""
    github.push(compile_files(plan(load_spec(pushed.root / FILE, shown=FILE))))
    return github


def test_a_push_says_what_it_starts(pushed: Repository, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert pushed.ci("sync", "--push") == 0
    (line,) = (line for line in capsys.readouterr().err.splitlines() if line.startswith("the push starts"))
    assert "machine-hours, done in" in line
    assert "[skip ci]" not in pushed.git("log", "-1", "--format=%B", "cuda-13_0")


def test_a_push_that_github_would_cancel_is_refused_before_it_is_made(
    pushed: Repository, remote: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert LONG != BUMPED
    pushed.write(FILE, LONG)
    before = heads(pushed), Git(remote).heads()
    assert pushed.ci("sync", "--push") == 2
    said = capsys.readouterr().err
    assert "[queue-too-long]" in said
    assert "`--waves` starts the shards in" in said
    assert (heads(pushed), Git(remote).heads()) == before


def test_a_push_of_more_files_than_path_filters_see_is_refused_before_it_is_made(
    pushed: Repository, remote: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ci_compiler.plan.limits.limit", lambda _: Limit(gate=2, limit=2))
    before = heads(pushed), Git(remote).heads()
    assert pushed.ci("sync", "--push") == 2
    err = capsys.readouterr().err
    assert "cuda-13_0: the push changes" in err
    assert "[too-many-files]" in err
    assert (heads(pushed), Git(remote).heads()) == before


def test_in_waves_the_push_starts_nothing_and_a_workflow_builds_what_changed(
    pushed: Repository, served: GitHub, remote: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pushed.write(FILE, LONG)
    assert pushed.ci("sync", "--push", "--waves") == 0
    assert shown(pushed, Git(remote).heads()["cuda-13_0"], FILE) == LONG.strip()
    assert pushed.git("log", "-1", "--format=%B", "cuda-13_0").rstrip().endswith("[skip ci]")
    (started,) = served.dispatched
    assert (started["path"], started["ref"], started["branch"]) == (
        ".github/workflows/waves.yml",
        "main",
        "cuda-13_0",
    )
    assert started["publish"] == "true"
    assert started["about"].endswith(" of cuda-13_0")
    assert served.runs[-1]["html_url"] in capsys.readouterr().out


def test_waves_without_a_push_are_refused(pushed: Repository, capsys: pytest.CaptureFixture[str]) -> None:
    assert pushed.ci("sync", "--waves") == 2
    assert "--waves: needs --push" in capsys.readouterr().err
