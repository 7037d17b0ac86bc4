"""What answers say of tests: the same everywhere, and as the plan and the history have it."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM
from ci_compiler.documents.build_matrix import text
from ci_compiler.documents.overlay.written import overlay
from ci_compiler.documents.site.data import data
from ci_compiler.hardware import Version
from ci_compiler.hardware.machine import GpuDevice, Machine
from ci_compiler.hardware.workloads import Workload
from ci_compiler.plan.matrix import Cell
from ci_compiler.plan.pipeline import Plan, plan
from ci_compiler.plan.records import DAY, Record, Records, Run, Trace
from ci_compiler.plan.routing import Route
from ci_compiler.reports.diff import diff
from ci_compiler.reports.evidence import proofs
from ci_compiler.reports.history import NAME as NAMED
from ci_compiler.reports.history_file import parsed, text_of
from ci_compiler.reports.offers import Wishes
from ci_compiler.reports.select import Recommendation, select
from ci_compiler.spec.build import bundled_spec
from tests.documents.test_finder import answers, as_question
from tests.histories import NOW, history
from tests.loops import each
from tests.output import checked
from tests.specs import small, spec_of

Claim = tuple[dict[str, str], set[str]]
"""What is claimed of a variant: by test, the pool (and the day) where it was tested; and the tests that lack."""


@pytest.fixture(scope="module")
def bundled() -> Plan:
    return plan(bundled_spec())


@pytest.fixture(scope="module")
def records(bundled: Plan) -> Records:
    """Runs of the last weeks, a third of which failed, with the machines, as they are read from the file."""
    pools = {
        (cell.branch, variant.name): route.pools
        for cell, route in zip(bundled.judged.cells, bundled.routes, strict=True)
        for variant in cell.variants
    }

    def with_machines(key: tuple[str, str], one: Record) -> Record:
        on = {stage.name: ", ".join(sorted(pool.runs_on.labels)) for stage, pool in pools[key].items()}
        return replace(one, machines={name: labels for name, labels in on.items() if name in one.ends})

    made = history(bundled, days=9, every=3, failures=0.3)
    traces = {
        key: replace(trace, records=tuple(with_machines(key, one) for one in trace.records))
        for key, trace in made.variants.items()
    }
    return parsed(text_of(replace(made, variants=traces)).encode())


@pytest.fixture(scope="module", params=["plan", "history"])
def known(request: pytest.FixtureRequest, records: Records) -> Records | None:
    """The history that is given, if any."""
    return records if request.param == "history" else None


def parts(bundled: Plan) -> Iterator[tuple[Cell, Route]]:
    return zip(bundled.judged.cells, bundled.routes, strict=True)


def truth(cell: Cell, route: Route, name: str, known: Records | None) -> Claim:
    """What may be claimed of a variant, from the route and the history themselves."""
    wanted = ["cpu-test", *(["gpu-test"] if cell.target != "cpu" else [])]
    pools = {stage.name: pool.name for stage, pool in route.pools.items() if stage.name in wanted}
    if known is None:
        return pools, set(wanted) - set(pools)
    tested = {}
    for stage, pool in pools.items():
        ran = [one for one in known.variants[cell.branch, name].records if stage in one.ends]
        if ran and ran[0].ends[stage] == "success":
            tested[stage] = f"{pool} {time.strftime('%Y-%m-%d', time.gmtime(ran[0].run.started))}"
    return tested, set(wanted) - set(tested)


_TESTED = re.compile(r"(\S+) (?:runs on|passed on ([0-9-]+), on) (\S+) \(")


def claim(tested: tuple[str, ...], untested: tuple[str, ...]) -> Claim:
    """What sentences claim."""
    found = [_TESTED.match(text) for text in tested]
    assert all(found), tested
    pools = {one[1]: f"{one[3]} {one[2]}" if one[2] else one[3] for one in found if one}
    assert all(
        re.match(r"\S+ (never runs: |failed on [0-9-]+, on |has no result since [0-9-]+, )", one) for one in untested
    )
    return pools, {one.split()[0] for one in untested}


def of_words(words: list[str]) -> Claim:
    """What sentences claim that are not sorted into tested and untested."""
    tested = [one for one in words if _TESTED.match(one)]
    return claim(tuple(tested), tuple(one for one in words if one not in tested))


def verdict(found: Claim, *, failed: bool) -> str:
    tested, lacking = found
    return "failing" if failed else ("tested in part" if lacking else "tested") if tested else "never tested"


def machine_of(bundled: Plan, cell: Cell) -> Machine:
    """A machine for which `cell` is built."""
    hardware = bundled.spec.hardware
    isas = tuple(isa for isa in hardware.isas if isa in hardware.runs([cell.isa], cell.system))
    if cell.target == "cpu":
        return Machine(system=cell.system, isas=isas)
    gpu = GpuDevice(index=0, name=cell.target, capability=hardware.gpu(cell.target).capability, driver="")
    return Machine(system=cell.system, isas=isas, gpus=(gpu,))


def workload_of(cell: Cell) -> Workload:
    return next((one for one in Workload if one.isa == cell.isa), Workload.GENERAL)


def of_select(
    bundled: Plan, known: Records | None, *, everything: bool = False
) -> Callable[[Cell, str], Recommendation]:
    proved = proofs(bundled.spec, bundled.judged.cells, bundled.routes, known)

    def ask(cell: Cell, package: str) -> Recommendation:
        wishes = Wishes(package=package, branch=cell.branch, workload=workload_of(cell))
        machine = machine_of(bundled, cell)
        return select(bundled.spec, bundled.judged.cells, machine, wishes, everything=everything, known=proved)

    return ask


def claims(bundled: Plan, known: Records | None) -> dict[str, Mapping[tuple[str, str], Claim]]:
    """What each answer claims of each variant that it speaks of."""
    cells = bundled.judged.cells
    shown = data(bundled, records=known)
    page, chosen = {}, {}
    for row in shown["cells"]:
        for package in row["packages"]:
            at = row["evidence"] if isinstance(row["evidence"], int) else row["evidence"][package]
            one = shown["evidence"][at]
            page[row["branch"], f"{package}-{row['suffix']}"] = claim(one["tested"], one["untested"])
    ask = of_select(bundled, known)
    for cell in cells:
        choice = ask(cell, "pytorch")
        assert choice.best
        chosen[choice.best.branch, choice.best.name] = claim(choice.tested, choice.untested)
    other = plan(spec_of(small(branches={"other": small()["branches"]["main"]})))
    changes = diff(other, bundled, records=known).proved
    fleet = overlay(bundled, {}, {}, known)["fleet.nix"]
    said = dict(re.findall(r'^\s+"([0-9]+)" = "(.*)";$', fleet, re.MULTILINE))
    variants = re.findall(r'{ name = "(\S+)";.* branch = "(\S+?)";.* proof = "([0-9]+)"; }', fleet)
    return {
        "page": page,
        "select": chosen,
        "diff": {(group.branch, name): of_words([*group.reasons[1:]]) for group in changes for name in group.names},
        "overlay": {(branch, name): of_words(said[proof].split("; ")[1:]) for name, branch, proof in variants},
    }


@pytest.mark.slow
def test_every_answer_claims_of_every_cell_what_the_plan_and_the_history_have(
    bundled: Plan, known: Records | None
) -> None:
    true = {
        (cell.branch, variant.name): truth(cell, route, variant.name, known)
        for cell, route in parts(bundled)
        for variant in cell.variants
    }
    found = claims(bundled, known)
    counts = {answer: len(rows) for answer, rows in found.items()}
    assert (len(bundled.judged.cells), len(true)) == (153, 459)
    assert counts == {"page": 459, "select": 153, "diff": 459, "overlay": 459}
    coloured = {(row["branch"], row["suffix"]): row["tested"] for row in data(bundled, records=known)["cells"]}
    for cell in bundled.judged.cells:
        own = [set(true[cell.branch, variant.name][0]) for variant in cell.variants]
        assert set(coloured[cell.branch, cell.suffix]) == set.intersection(*own)
    wrong = [f"{answer}: {key}" for answer, rows in found.items() for key, row in rows.items() if row != true[key]]
    assert wrong == []


def claim_of(package: str, choice: Recommendation, packages: list[str]) -> Claim:
    """What an answer claims of one of the packages that it installs: what names it, else what all share."""
    every = [*choice.tested, *choice.untested]
    own = [text.removeprefix(f"{package}: ") for text in every if text.startswith(f"{package}: ")]
    shared = [text for text in every if not text.startswith(tuple(f"{one}: " for one in packages))]
    about = {text.split()[0] for text in own}
    return of_words([*own, *(text for text in shared if text.split()[0] not in about)])


@pytest.mark.slow
def test_an_answer_that_installs_all_packages_says_what_was_tested_of_each(
    bundled: Plan, known: Records | None
) -> None:
    proved = proofs(bundled.spec, bundled.judged.cells, bundled.routes, known)
    ask, wrong, verdicts = of_select(bundled, known, everything=True), [], set()
    choices = [(cell, route, ask(cell, "pytorch")) for cell, route in parts(bundled)]
    for cell, route, choice in choices:
        packages = [variant.package for variant in cell.variants]
        assert len(" ".join(choice.install).split()) == 2 + len(packages), "each is installed"
        wrong += [
            variant.name
            for variant in cell.variants
            if claim_of(variant.package, choice, packages) != truth(cell, route, variant.name, known)
        ]
        own = {proved[cell.branch, variant.name].verdict for variant in cell.variants}
        assert choice.tests == ("failing" if "failing" in own else own.pop() if len(own) == 1 else "tested in part")
        verdicts.add(choice.tests)
    assert (len(choices), wrong) == (153, [])
    assert ("failing" in verdicts) is (known is not None)
    some = choices[::7]
    wishes = [Wishes(package="pytorch", branch=cell.branch, workload=workload_of(cell)) for cell, _, _ in some]
    asked = [as_question(machine_of(bundled, one[0]), wish) for one, wish in zip(some, wishes, strict=True)]
    for question in asked:
        question["wishes"]["everything"] = True
    for (_, _, choice), answer in zip(some, answers(data(bundled, records=known), asked), strict=True):
        said = choice.as_json()
        keys = ("tests", "tested", "untested", "install")
        assert {key: answer[key] for key in keys} == {key: said[key] for key in keys}
        assert [one["tests"] for one in answer["runners_up"]] == [one["tests"] for one in said["runners_up"]]


def test_the_verdict_is_what_the_sentences_say(bundled: Plan, known: Records | None) -> None:
    proved = proofs(bundled.spec, bundled.judged.cells, bundled.routes, known)
    for one in proved.values():
        failed = any(" failed on " in text for text in one.untested)
        assert one.verdict == verdict(claim(one.tested, one.untested), failed=failed)
    found = {one.verdict for one in proved.values()}
    assert found == {"tested", "tested in part"} | ({"failing"} if known else set())


def test_the_build_matrix_names_the_pools_of_every_cell(bundled: Plan) -> None:
    said = text(bundled).split("### gpu-test")[1].split("## What is left out")[0]
    head, _, *rows = [
        [one.strip() for one in line[1:-1].split("|")] for line in said.splitlines() if line.startswith("|")
    ]
    found: dict[tuple[str, str], set[str]] = {}
    for cell, route in parts(bundled):
        pools = {route.pools[stage].name for stage in route.pools if stage.name == "gpu-test"}
        found.setdefault((f"`{cell.target}`", f"`{cell.isa}`"), set()).update(pools or {"–"})
    shown = {
        (gpu, isa): set(one.replace("`", "").split(", "))
        for gpu, *cells in rows
        for isa, one in zip(head[1:], cells, strict=True)
        if one.strip()
    }
    assert shown == {key: pools for key, pools in found.items() if key[0] != "`cpu`"}


def test_the_page_answers_as_select_with_a_history(bundled: Plan, records: Records) -> None:
    cells = bundled.judged.cells[::7]
    wishes = [Wishes(package="torchvision", branch=cell.branch) for cell in cells]
    machines = [machine_of(bundled, cell) for cell in cells]
    asked = [as_question(machine, wish) for machine, wish in zip(machines, wishes, strict=True)]
    found = answers(data(bundled, records=records), asked)
    proved = proofs(bundled.spec, bundled.judged.cells, bundled.routes, records)
    for machine, wish, answer in each(zip(machines, wishes, found, strict=True)):
        choice = select(bundled.spec, bundled.judged.cells, machine, wish, known=proved).as_json()
        keys = ("tests", "tested", "untested", "why")
        assert {key: answer[key] for key in keys} == {key: choice[key] for key in keys}
        assert [one["tests"] for one in answer["runners_up"]] == [one["tests"] for one in choice["runners_up"]]


# Candidates of equal fit.


def two_pythons() -> Plan:
    matrix = small()["matrix"] | {"python": ["3.12", "3.13"]}
    return plan(spec_of(small(matrix=matrix)))


def results(decided: Plan, **ends: str) -> Records:
    """A history with these ends of the tests of every variant, by Python; newest first."""
    [shard] = [shard for shard in decided.shards if shard.target == "sm90"]
    runs = [Run(number=10 - at, shard=shard.name, started=NOW - at * DAY) for at in range(2)]
    traces = {
        ("main", name): Trace(
            records=tuple(
                Record(run=run, result="passed", ends={"build": "success", "cpu-test": end, "gpu-test": end})
                for run, end in zip(runs, ends[f"py{name.split('python')[1][:3]}"].split(), strict=False)
            )
        )
        for name in shard.variants
    }
    return Records(since=NOW - 30 * DAY, through=NOW, runs={run.number: run for run in runs}, variants=traces)


ROOT = Path(__file__).parents[2]

H100 = Machine(
    system="x86_64-linux",
    isas=("baseline", "avx", "avx2", "avx512"),
    gpus=(GpuDevice(index=0, name="H100", capability=Version(9, 0), driver="580"),),
)


def chosen(decided: Plan, known: Records | None, **wishes: str) -> Recommendation:
    proved = proofs(decided.spec, decided.judged.cells, decided.routes, known)
    return select(decided.spec, decided.judged.cells, H100, Wishes(package="pytorch", **wishes), known=proved)


def name_of(choice: Recommendation) -> str:
    return choice.best.name if choice.best else ""


def test_of_two_that_fit_equally_well_the_tested_one_is_first_and_says_why() -> None:
    decided = two_pythons()
    failing = results(decided, py313="failure success", py312="success")
    choice = chosen(decided, failing)
    assert name_of(choice) == "pytorch-python312-cuda12_8-sm90-avx512"
    assert "pytorch-python313-cuda12_8-sm90-avx512 on main fits as well, but is failing" in choice.why
    assert choice.tests == "tested"
    for known in (
        None,
        results(decided, py313="success", py312="success"),
        results(decided, py313="success", py312="failure"),
    ):
        newest = chosen(decided, known)
        assert name_of(newest) == "pytorch-python313-cuda12_8-sm90-avx512"
        assert "fits as well" not in " ".join(newest.why)
    asked = chosen(decided, failing, python="3.13")
    assert "python313" in name_of(asked)
    assert asked.tests == "failing"
    assert asked.untested[1].startswith(
        "gpu-test failed on 2026-10-01, and runs on h100 (self-hosted, linux, x64, gpu-sm90)"
    )
    assert asked.untested[1].endswith(", and passed on 2026-09-30")


def test_tests_do_not_outweigh_what_suits_the_machine_better() -> None:
    """A build for AVX-512 that fails is still what this CPU wants: the answer says that it fails."""
    decided = plan(spec_of(small()))
    failing = results(decided, py313="failure")
    traces = {key: one for key, one in failing.variants.items() if key[1].endswith("avx512")}
    choice = chosen(decided, replace(failing, variants=traces))
    assert name_of(choice).endswith("sm90-avx512")
    assert choice.tests == "failing"


def test_the_overlay_and_the_page_choose_the_tested_one_too() -> None:
    decided = two_pythons()
    failing = results(decided, py313="failure", py312="success")
    rows = re.findall(r'name = "(pytorch-\S+sm90-avx512)"', overlay(decided, {}, {}, failing)["fleet.nix"])
    assert [name.split("-")[1] for name in rows] == ["python312", "python313"]
    wishes = [Wishes(package=package) for package in ("pytorch", "torchvision")]
    told = answers(data(decided, records=failing), [as_question(H100, wish) for wish in wishes])
    assert [one["best"]["python"] for one in told] == ["3.12", "3.12"]
    assert told[1]["why"].count("torchvision-python313-cuda12_8-sm90-avx512 on main fits as well, but is failing") == 1


# What machines and reasons are named.


def of_one(decided: Plan, known: Records | None, name: str) -> tuple[str, ...]:
    found = proofs(decided.spec, decided.judged.cells, decided.routes, known)["main", name]
    return (*found.tested, *found.untested)


NAME = "pytorch-python313-cuda12_8-sm90-avx512"


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (
            "gpu-sm90, linux, self-hosted, x64",
            "on h100 (self-hosted, linux, x64, gpu-sm90), with the GPU that it is built",
        ),
        ("linux, nix-builder, self-hosted, x64", "on builder (self-hosted, linux, x64, nix-builder)"),
        ("gpu-sm90, old", "on a machine of no pool (gpu-sm90, old)"),
    ],
)
def test_the_machine_is_the_one_that_ran_the_test(labels: str, said: str) -> None:
    decided = plan(spec_of(small()))
    known = results(decided, py313="success")
    [one] = known.variants["main", NAME].records
    trace = Trace(records=(replace(one, machines={"gpu-test": labels}),))
    told = of_one(decided, replace(known, variants={("main", NAME): trace}), NAME)
    assert told[1].startswith(f"gpu-test passed on 2026-10-01, {said}")


def test_a_test_that_has_no_pool_any_more_was_passed_and_no_longer_runs() -> None:
    runners = {"builder": small()["runners"]["builder"]}
    decided = plan(spec_of(small(runners=runners)))
    told = of_one(decided, results(plan(spec_of(small())), py313="success"), NAME)
    assert told[1] == "gpu-test passed on 2026-10-01"
    assert told[2].startswith("gpu-test no longer runs: no pool for gpu-test")


def with_suites() -> Plan:
    packages = small()["packages"] | {
        "pytorch": {
            "attribute": "torch",
            "suites": {
                "ops": {"command": "ci/ops.sh", "on": "gpu", "minutes": 5},
                "wide": {"command": "ci/wide.sh", "on": "gpu", "gpus": 4, "minutes": 5},
            },
        }
    }
    return plan(spec_of(small(packages=packages)))


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        (None, "the job gpu-test suites runs on h100 ("),
        ({"gpu-test suites (ops, 1/1)": "success"}, "the job gpu-test suites passed on 2026-10-01, and runs on h100 ("),
        ({"suites": "failure"}, "the job gpu-test suites failed on 2026-10-01, and runs on h100 ("),
    ],
)
def test_suites_are_tests_too(ends: dict[str, str] | None, said: str) -> None:
    decided = with_suites()
    known = results(decided, py313="success")
    [one] = known.variants["main", NAME].records
    trace = Trace(records=(replace(one, ends={**one.ends, **(ends or {})}),))
    told = of_one(decided, replace(known, variants={("main", NAME): trace}) if ends else None, NAME)
    assert [text for text in told if text.startswith(said)]
    assert told[-1].startswith("the job gpu-test suites on 4 GPUs never runs: ")


def test_a_test_that_only_imports_says_so() -> None:
    packages = small()["packages"] | {"other": {"needs": ["pytorch"], "attribute": "other"}}
    versions = {
        "main": small()["branches"]["main"] | {"versions": small()["branches"]["main"]["versions"] | {"other": "1"}}
    }
    decided = plan(spec_of(small(packages=packages, branches=versions)))
    told = of_one(decided, None, "other-python313-cuda12_8-sm90-avx512")
    assert told[0].startswith("cpu-test (imported only) runs on builder (")


def test_a_test_without_a_result_says_since_when() -> None:
    told = of_one(plan(spec_of(small())), Records(since=NOW - 30 * DAY, through=NOW), NAME)
    assert told[1].startswith("gpu-test has no result since 2026-09-01, and runs on h100 (")


def test_what_is_published_without_a_test_says_why() -> None:
    packages = small()["packages"] | {"pytorch": {"attribute": "torch", "untested": "It is text."}}
    decided = plan(spec_of(small(packages=packages, tests={"cpu-test": "never", "gpu-test": "never"})))
    assert of_one(decided, None, NAME)[-1] == "no test covers it: It is text."


# Commands and documents.


def test_the_commands_read_a_history(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    decided = plan(spec_of(small()))
    (tmp_path / "spec.json").write_text(json.dumps(small()), "utf-8")
    (tmp_path / "old.json").write_text(json.dumps(small(matrix=small()["matrix"] | {"gpus": {"cpu": {}}})), "utf-8")
    (tmp_path / "history.json").write_text(text_of(results(decided, py313="success")), "utf-8")
    where = [
        "--root",
        str(tmp_path),
        "--spec",
        str(tmp_path / "spec.json"),
        "--history",
        str(tmp_path / "history.json"),
    ]
    passed = "gpu-test passed on 2026-10-01, and runs on h100 ("
    assert run(PROGRAM, ["select", "--gpu", "H100", "--cpu", "avx512", *where]) == 0
    assert f"             {passed}" in capsys.readouterr().out
    assert run(PROGRAM, ["diff", str(tmp_path / "old.json"), *where, "--json"]) == 0
    changed = checked("ci-compile diff", capsys.readouterr().out)
    assert {one["tests"] for one in changed["proved"]} == {"tested"}
    assert passed in json.dumps(changed["proved"])
    assert run(PROGRAM, ["diff", str(tmp_path / "old.json"), *where]) == 0
    assert "<summary>tests of what is added or rebuilt: 4 tested</summary>" in capsys.readouterr().out
    assert run(PROGRAM, ["overlay", str(tmp_path / "nix"), *where]) == 0
    assert passed in (tmp_path / "nix/fleet.nix").read_text("utf-8")


CLAIMS = {
    "README.md": "Every answer says what was tested, on which machine, and what never was.",
    ".github/docs/help-users-choose.md": "Every answer says of each test of a variant on which machine it runs, or why",
    ".github/docs/branches.md": "every output says that the GPU test was not run",
}
"""What the documents claim, which the tests above and this one prove."""


def test_what_documents_claim_of_answers_holds_for_a_gpu_that_no_machine_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for file, sentence in CLAIMS.items():
        page = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", (ROOT / file).read_text("utf-8"))
        assert sentence in " ".join(page.split())
    document = small(matrix=small()["matrix"] | {"gpus": {"sm120": {}}})
    (tmp_path / "spec.json").write_text(json.dumps(document), "utf-8")
    (tmp_path / "old.json").write_text(json.dumps(small()), "utf-8")
    name = "pytorch-python313-cuda12_8-sm120-avx512"
    outputs = {
        "select": ["select", "--gpu", "RTX 5090", "--cpu", "avx512"],
        "diff": ["diff", str(tmp_path / "old.json")],
        "explain": ["explain", name],
        "overlay": ["overlay", str(tmp_path / "nix")],
        "page": ["site", str(tmp_path / "site")],
    }
    written = {"overlay": "nix/fleet.nix", "page": "site/index.html"}
    for answer, words in outputs.items():
        assert run(PROGRAM, [*words, "--root", str(tmp_path), "--spec", str(tmp_path / "spec.json")]) == 0, answer
        out = capsys.readouterr().out
        said = (tmp_path / written[answer]).read_text("utf-8") if answer in written else out
        assert re.search(
            "gpu-test( never runs:|     not run:) no pool for gpu-test on x86_64-linux has a GPU that", said
        ), answer
        assert re.search(r"cpu-test +(runs on )?builder", said), answer
    matrix = text(plan(spec_of(document)))
    assert "0 of 4 variants are tested; – is what no pool can test" in matrix


def test_manifests_are_no_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / NAMED).write_text(json.dumps({"branch": "main", "name": NAME, "seconds": 1}), "utf-8")
    (tmp_path / "history.json").write_text("{}", "utf-8")
    for given, said in (
        (tmp_path, "has manifests, which say nothing of tests; name a `history.json`"),
        (tmp_path / "history.json", "is not a history"),
        (tmp_path / "none", "no such file"),
    ):
        assert run(PROGRAM, ["select", "--bundled", "--gpu", "H100", "--history", str(given)]) == 2
        assert said in capsys.readouterr().err
