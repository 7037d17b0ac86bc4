"""What answers say of tests: the same everywhere, and as the plan and the history have it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import pytest

from ci_compiler.documents.overlay.written import overlay
from ci_compiler.documents.site.data import data
from ci_compiler.hardware.machine import GpuDevice, Machine
from ci_compiler.hardware.workloads import Workload
from ci_compiler.plan.matrix import Cell
from ci_compiler.plan.pipeline import Plan, plan
from ci_compiler.plan.records import Record, Records
from ci_compiler.plan.routing import Route
from ci_compiler.reports.diff import diff
from ci_compiler.reports.evidence import proofs
from ci_compiler.reports.history_file import parsed, text_of
from ci_compiler.reports.inventory import Entry, cluster
from ci_compiler.reports.offers import Wishes
from ci_compiler.reports.select import Recommendation, select
from ci_compiler.spec.build import bundled_spec
from tests.histories import history
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


def of_select(bundled: Plan, known: Records | None) -> Callable[[Cell, str], Recommendation]:
    proved = proofs(bundled.spec, bundled.judged.cells, bundled.routes, known)

    def ask(cell: Cell, package: str) -> Recommendation:
        workload = next((one for one in Workload if one.isa == cell.isa), Workload.GENERAL)
        wishes = Wishes(package=package, branch=cell.branch, workload=workload)
        return select(bundled.spec, bundled.judged.cells, machine_of(bundled, cell), wishes, known=proved)

    return ask


def claims(bundled: Plan, known: Records | None) -> dict[str, Mapping[tuple[str, str], Claim]]:
    """What each answer claims of each variant that it speaks of."""
    spec, cells = bundled.spec, bundled.judged.cells
    proved = proofs(spec, cells, bundled.routes, known)
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
    entries = [Entry(name=cell.suffix, count=1, machine=machine_of(bundled, cell)) for cell in cells[::9]]
    rows = cluster(spec, bundled.judged, entries, Wishes(package="pytorch"), known=proved, everything=False).served
    other = plan(spec_of(small(branches={"other": small()["branches"]["main"]})))
    changes = diff(other, bundled, records=known).proved
    fleet = overlay(bundled, {}, {}, known)["fleet.nix"]
    said = dict(re.findall(r'^\s+"([0-9]+)" = "(.*)";$', fleet, re.MULTILINE))
    variants = re.findall(r'{ name = "(\S+)";.* branch = "(\S+?)";.* proof = "([0-9]+)"; }', fleet)
    return {
        "page": page,
        "select": chosen,
        "inventory": {
            (one.choice.best.branch, one.choice.best.name): claim(one.choice.tested, one.choice.untested)
            for one in rows
            if one.choice.best
        },
        "diff": {(group.branch, name): of_words([*group.reasons[1:]]) for group in changes for name in group.names},
        "overlay": {(branch, name): of_words(said[proof].split("; ")[1:]) for name, branch, proof in variants},
    }


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
    assert counts == {"page": 459, "select": 153, "inventory": 15, "diff": 459, "overlay": 459}
    wrong = [f"{answer}: {key}" for answer, rows in found.items() for key, row in rows.items() if row != true[key]]
    assert wrong == []
