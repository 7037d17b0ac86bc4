"""Which pools and runners serve the label sets of the compiled workflows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ci_compiler.cli.app import run
from ci_compiler.cli.runner import PROGRAM
from ci_compiler.github.inventory import Runner
from ci_compiler.plan.pipeline import plan
from ci_compiler.runner.coverage import CoverageVerdict, Served, cover, label_sets, takes
from ci_compiler.spec.build import bundled_spec
from ci_compiler.spec.model import RunsOn
from ci_compiler.stages import BUILD
from ci_compiler.sync.compiled import compile_files
from tests.github.server import serving
from tests.github.state import OWNER, REPOSITORY, TOKEN, Fault, GitHub
from tests.output import checked
from tests.specs import small, spec_of

BUILDER = ("self-hosted", "linux", "x64", "nix-builder")


def runner(*labels: str, name: str = "one", online: bool = True, busy: bool = False, group: str = "") -> Runner:
    return Runner(id=1, name=name, labels=labels, online=online, busy=busy, group=group)


def verdicts(served: tuple[Served, ...]) -> dict[str, CoverageVerdict]:
    return {one.asked.pool: one.verdict for one in served if one.asked.pool}


def document(**pools: Any) -> dict[str, Any]:
    """The small spec with other `runs-on` for `builder` and `h100`."""
    changed = small()
    for name, runs_on in pools.items():
        changed["runners"][name] |= {"runs-on": runs_on, "system": "x86_64-linux"}
    return changed


def _read(value: str) -> Any:
    """A JSON value of an input; {} for an expression."""
    return {} if "$" in value else json.loads(value)


def asked_on(text: str) -> set[str]:
    """Everything that the jobs of a compiled workflow run on, as JSON."""
    found: set[str] = set()
    for job in yaml.safe_load(text)["jobs"].values():
        passed = job.get("with", {})
        machines = [
            *_read(passed.get("machines", "{}")).values(),
            *([_read(one)] if (one := passed.get("machine")) else []),
        ]
        found |= {json.dumps(machine["runs-on"]) for machine in machines}
        if "$" not in (runs_on := job.get("runs-on", "$")):
            found.add(json.dumps(runs_on if isinstance(runs_on, list) else [runs_on]))
    return found


def test_the_label_sets_are_those_of_the_compiled_workflows() -> None:
    decided = plan(bundled_spec())
    files = compile_files(decided)
    compiled = set().union(*(asked_on(text) for path, text in files.items() if "/workflows/" in path))
    sets = label_sets(decided)
    assert {json.dumps(list(one.runs_on.labels)) for one in sets} == compiled
    builds = sum(one.jobs.get(BUILD, 0) for one in sets)
    assert builds == sum(len(shard.variants) for shard in decided.shards)


@pytest.mark.parametrize(
    ("runners", "verdict"),
    [
        ([], CoverageVerdict.NOBODY),
        ([runner("self-hosted", "linux", "x64")], CoverageVerdict.NOBODY),
        ([runner("Self-Hosted", "Linux", "X64", "Nix-Builder", "more")], CoverageVerdict.ONLINE),
        ([runner(*BUILDER, busy=True)], CoverageVerdict.BUSY),
        ([runner(*BUILDER, busy=True), runner(*BUILDER)], CoverageVerdict.ONLINE),
        ([runner(*BUILDER, online=False)], CoverageVerdict.OFFLINE),
        ([runner(*BUILDER, online=False), runner(*BUILDER, busy=True)], CoverageVerdict.BUSY),
        ([runner(*BUILDER, group="builders")], CoverageVerdict.ONLINE),
        ([runner()], CoverageVerdict.NOBODY),
    ],
)
def test_a_label_set_is_served_by_runners_with_all_of_its_labels(
    runners: list[Runner], verdict: CoverageVerdict
) -> None:
    assert verdicts(cover(label_sets(plan(spec_of(small()))), runners))["builder"] is verdict


@pytest.mark.parametrize(
    ("runners", "verdict"),
    [
        ([runner(*BUILDER)], CoverageVerdict.NOBODY),
        ([runner(*BUILDER, group="gpu")], CoverageVerdict.NOBODY),
        ([runner(*BUILDER, group="builders")], CoverageVerdict.ONLINE),
        ([runner(*BUILDER, group="Builders", busy=True)], CoverageVerdict.BUSY),
    ],
)
def test_a_group_counts(runners: list[Runner], verdict: CoverageVerdict) -> None:
    decided = plan(spec_of(document(builder={"group": "builders", "labels": list(BUILDER)})))
    assert verdicts(cover(label_sets(decided), runners))["builder"] is verdict


@pytest.mark.parametrize(
    ("runners", "verdict"),
    [
        (None, CoverageVerdict.FROM_ZERO),
        ([], CoverageVerdict.FROM_ZERO),
        ([runner(name="arc-x64-abcde-runner-1")], CoverageVerdict.ONLINE),
        ([runner(name="arc-x64-abcde-runner-1", busy=True)], CoverageVerdict.BUSY),
        ([runner(name="arc-x64-abcde-runner-1", online=False)], CoverageVerdict.FROM_ZERO),
        ([runner(name="arc-x64-runner-abcde")], CoverageVerdict.ONLINE),
        ([runner(name="arc-x64-gpu-runner-abcde")], CoverageVerdict.FROM_ZERO),
        ([runner(name="arc-x64-by-hand")], CoverageVerdict.FROM_ZERO),
        ([runner(name="arc-x641-abcde")], CoverageVerdict.FROM_ZERO),
        ([runner("arc-x64", name="arc-x64-by-hand")], CoverageVerdict.FROM_ZERO),
    ],
)
def test_a_scale_set_without_visible_runners_still_serves(
    runners: list[Runner] | None, verdict: CoverageVerdict
) -> None:
    decided = plan(spec_of(document(builder="arc-x64")))
    assert verdicts(cover(label_sets(decided), runners))["builder"] is verdict


@pytest.mark.parametrize(
    ("runners", "plain", "scaled"),
    [
        ([], CoverageVerdict.NOBODY, CoverageVerdict.FROM_ZERO),
        ([runner(name="builder-runner-abcde")], CoverageVerdict.ONLINE, CoverageVerdict.ONLINE),
        ([runner(name="builder-xyz12-runner-abcde", online=False)], CoverageVerdict.OFFLINE, CoverageVerdict.FROM_ZERO),
        ([runner(name="h100-runner-abcde")], CoverageVerdict.NOBODY, CoverageVerdict.FROM_ZERO),
        ([runner(*BUILDER, online=False)], CoverageVerdict.OFFLINE, CoverageVerdict.FROM_ZERO),
    ],
)
def test_a_pool_with_labels_may_be_a_scale_set(
    runners: list[Runner], plain: CoverageVerdict, scaled: CoverageVerdict
) -> None:
    asked = label_sets(plan(spec_of(document())))
    assert verdicts(cover(asked, runners))["builder"] is plain
    assert verdicts(cover(asked, runners, scale_set_labels=True))["builder"] is scaled
    assert verdicts(cover(asked, None, scale_set_labels=True))["builder"] is CoverageVerdict.FROM_ZERO


def test_without_github_the_declared_pools_count() -> None:
    served = cover(label_sets(plan(spec_of(small()))), None)
    assert verdicts(served) == {"builder": CoverageVerdict.DECLARED, "h100": CoverageVerdict.DECLARED}
    assert served[-1].verdict is CoverageVerdict.HOSTED


LABELS = st.lists(st.sampled_from(["self-hosted", "linux", "x64", "gpu", "big"]), unique=True, min_size=1)


@given(bears=LABELS, asks=LABELS, more=LABELS)
def test_a_runner_with_more_labels_still_serves(bears: list[str], asks: list[str], more: list[str]) -> None:
    job = RunsOn(labels=tuple(asks))
    assert takes(runner(*bears), job) is (set(asks) <= set(bears))
    assert takes(runner(*bears, *more), job) or not takes(runner(*bears), job)


@pytest.fixture
def github() -> Iterator[GitHub]:
    """GitHub with a repository of a personal account."""
    with serving(GitHub()) as served:
        yield served


@pytest.fixture
def organisation() -> Iterator[GitHub]:
    """GitHub with a repository of an organisation."""
    with serving(GitHub(organisation=True)) as served:
        yield served


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Options that make `coverage` use the small spec, without waiting."""
    monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
    monkeypatch.setenv("GITHUB_REPOSITORY", REPOSITORY)
    monkeypatch.delenv("GITHUB_APP_ID", raising=False)
    monkeypatch.setattr("time.sleep", lambda _: None)
    (tmp_path / "spec.yaml").write_text(json.dumps(small()), "utf-8")
    return ["coverage", "--root", str(tmp_path), "--spec", str(tmp_path / "spec.yaml")]


def test_the_command_needs_no_token_for_declared_pools(
    command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("GITHUB_TOKEN")
    assert run(PROGRAM, command) == 0
    assert capsys.readouterr().out.splitlines() == [
        "self-hosted, linux, x64, nix-builder  builder  declared          2  24",
        "self-hosted, linux, x64, gpu-sm90     h100     declared          1   4",
        "ubuntu-24.04                                   hosted by GitHub  0   0",
    ]


def test_the_command_fails_if_no_runner_serves(
    github: GitHub,
    command: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("GITHUB_API_URL", github.url)
    github.add_runner("builder-1", BUILDER, busy=True)
    github.add_runner("builder-2", BUILDER, status="offline")
    assert run(PROGRAM, [*command, "--live", "--json"]) == 1
    out, err = capsys.readouterr()
    assert [
        (row["pool"], row["verdict"], row["online"], row["busy"], row["offline"])
        for row in checked("ci-runner coverage", out)
    ] == [
        ("builder", "busy", 1, 1, 1),
        ("h100", "nobody", 0, 0, 0),
        ("", "hosted by GitHub", 0, 0, 0),
    ]
    assert err.splitlines() == [
        "no runner is online for a label set; asking again in 60 s, as one may be between two jobs",
        "self-hosted, linux, x64, gpu-sm90: no runner serves the 4 jobs of pool h100",
    ]


def test_the_command_fails_if_every_runner_is_offline(
    github: GitHub,
    command: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("GITHUB_API_URL", github.url)
    github.add_runner("builder-1", BUILDER, status="offline")
    github.add_runner("h100", ("self-hosted", "linux", "x64", "gpu-sm90"))
    assert run(PROGRAM, [*command, "--live"]) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == "self-hosted, linux, x64, nix-builder: no runner is online for the 24 jobs of pool builder"


def test_a_runner_between_two_jobs_is_waited_for(
    github: GitHub,
    command: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GITHUB_API_URL", github.url)
    github.add_runner("builder-1", BUILDER)
    monkeypatch.setattr("time.sleep", lambda _: github.add_runner("h100", ("self-hosted", "linux", "x64", "gpu-sm90")))
    assert run(PROGRAM, [*command, "--live"]) == 0


def test_an_organisations_runners_serve_too(
    organisation: GitHub,
    command: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("GITHUB_API_URL", organisation.url)
    group = organisation.add_group("Default", default=True)
    organisation.add_runner("builder-1", BUILDER)
    organisation.add_runner("h100", ("self-hosted", "linux", "x64", "gpu-sm90"), owner=OWNER, runner_group_id=group)
    assert run(PROGRAM, [*command, "--live"]) == 0
    organisation.faults.append(Fault(403, path="/orgs/", message="Must have admin rights"))
    capsys.readouterr()
    assert run(PROGRAM, [*command, "--live"]) == 2
    assert "list the runner groups of my-org: the token may not do this" in capsys.readouterr().err


def test_a_slot_in_quarantine_is_reported(
    github: GitHub,
    command: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("GITHUB_API_URL", github.url)
    github.add_runner("builder-1", BUILDER)
    github.add_runner("h100", ("self-hosted", "linux", "x64", "gpu-sm90"))
    github.add_runner("ci-runner-here-0123-2-tm89c0-h100", ("quarantined",), status="offline")
    assert run(PROGRAM, [*command, "--live"]) == 0
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("ci-runner-here-0123-2-tm89c0-h100: a slot of its machine is in quarantine;")
