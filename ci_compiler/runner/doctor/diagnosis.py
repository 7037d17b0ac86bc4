"""Whether a machine can do its work: every check with its verdict, and how to fix a failure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ci_compiler.backends.protocol import NixUse
from ci_compiler.codes import Code
from ci_compiler.errors import wrong
from ci_compiler.hardware import CPU
from ci_compiler.judgement import Judgement, skipped
from ci_compiler.plan.lookup import explain
from ci_compiler.plan.machine_fit import fit
from ci_compiler.plan.pipeline import plan
from ci_compiler.plan.rules import judge
from ci_compiler.runner.doctor import build_checks, hardware_checks, host_checks
from ci_compiler.runner.doctor.evidence import Assignment, Evidence
from ci_compiler.runner.targets import refusal
from ci_compiler.spec.model import Pool, Spec
from ci_compiler.stages import Stage

CHECKS = hardware_checks.CHECKS | build_checks.CHECKS | host_checks.CHECKS
"""All checks by name, in their order."""


def work_of(spec: Spec, *, stage: Stage | None = None, name: str = "", pool: Pool | None = None) -> Assignment:
    """The work of `stage` (None: those of `pool`, or any) on the variant `name` ('': any).

    Raises InputError if no variant has that name, if the variant does not have the stage, or if the spec is invalid.
    """
    cells = judge(spec).cells
    if not name:
        return Assignment(spec=spec, cells=cells, stage=stage, pool=pool)
    found = ((cell, variant) for cell in cells for variant in cell.variants if variant.name == name)
    cell, subject = next(found, (None, None))
    if cell is None:
        raise refusal(explain(plan(spec), name))
    if stage and stage.needs_gpu and cell.target == CPU:
        raise wrong("NAME", Code.STAGE_MISSING, f"{name} is built for the CPU alone and has no {stage}")
    return Assignment(spec=spec, cells=(cell,), stage=stage, subject=subject, pool=pool)


def examine(work: Assignment, evidence: Evidence) -> dict[str, Judgement]:
    """The judgement of every check, by name. A check that none of the stages needs is shown as skipped.

    The stages are those of the work, else those of the pools that the machine fits, else all that its hardware allows.
    """
    spec, machine = work.spec, evidence.machine
    on_gpu = any_gpu = bool(machine.gpus or machine.problems)
    if work.subject or work.pool:  # stages that use a GPU for GPU variants alone may use one
        on_gpu = work.cell.target != CPU if work.subject else bool(work.pool and work.pool.gpu)
    suited = {stage for pool in spec.pools if fit(spec.hardware, machine, pool).fits for stage in pool.stages}
    possible = [stage for stage in spec.stages if any_gpu or not stage.needs_gpu]
    wanted = {name for stage in work.stages or suited or possible for name in stage.checks_of(of_gpu=on_gpu)}
    if work.pool:
        wanted |= {"pool", "egress"}
    reason = f"{work.stage} does not need it" if work.stage else "nothing that this machine may run needs it"
    results = dict.fromkeys(CHECKS, skipped(reason))
    if work.spec.backend.nix is NixUse.NONE:
        without = skipped(f"{work.spec.backend.title} builds without Nix")
        results |= dict.fromkeys(wanted.intersection(build_checks.OF_NIX), without)
        wanted.difference_update(build_checks.OF_NIX)
    results |= {name: check(work, evidence) for name, check in CHECKS.items() if name in wanted}
    return results | ({name: check(work, evidence) for name, check in host_checks.DEEP.items()} if work.deep else {})


def as_json(work: Assignment, results: Mapping[str, Judgement]) -> dict[str, Any]:
    """The results for `--json`."""
    return {
        "stage": work.stage.name if work.stage else None,
        "pool": work.pool.name if work.pool else None,
        "variant": work.subject.name if work.subject else None,
        "ok": not any(judgement.failed for judgement in results.values()),
        "checks": [{"check": name, **judgement._asdict()} for name, judgement in results.items()],
    }
