"""Whether a machine can do its work: every check with its verdict, and how to fix a failure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ci_compiler.codes import Code
from ci_compiler.errors import wrong
from ci_compiler.hardware import CPU
from ci_compiler.hardware.machine import Machine, fit
from ci_compiler.judgement import CheckVerdict, Judgement, skipped
from ci_compiler.plan.lookup import explain
from ci_compiler.plan.matrix import Cell
from ci_compiler.plan.pipeline import plan
from ci_compiler.plan.rules import judge
from ci_compiler.runner.doctor import build_checks as checks_build
from ci_compiler.runner.doctor import hardware_checks as checks_hardware
from ci_compiler.runner.doctor import host_checks as checks_host
from ci_compiler.runner.doctor.evidence import AssignedVariant, Assignment, Check, Evidence
from ci_compiler.spec.model import Spec
from ci_compiler.stages import Stage, stages

CHECKS: tuple[Check, ...] = (*checks_hardware.CHECKS, *checks_build.CHECKS, *checks_host.CHECKS)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """The name of a check and its judgement."""

    check: str
    judgement: Judgement

    @property
    def failed(self) -> bool:
        """Whether it failed."""
        return self.judgement.verdict is CheckVerdict.FAILED


def work_of(spec: Spec, *, stage: Stage | None = None, name: str = "") -> Assignment:
    """The work of `stage` (None: any) on the variant `name` ('': any).

    Raises InputError if no variant has that name, if the variant does not have the stage, or if the spec is invalid.
    """
    cells = judge(spec).cells
    subject = _subject(spec, cells, name) if name else None
    if subject and stage and stage.needs_gpu and subject.cell.gpu == CPU:
        raise wrong("NAME", Code.STAGE_MISSING, f"{name} is built for no GPU and has no {stage}")
    return Assignment(spec=spec, cells=cells, stage=stage, subject=subject)


def examine(work: Assignment, evidence: Evidence) -> tuple[CheckResult, ...]:
    """The result of every check. A check that none of the stages needs is shown as skipped."""
    wanted = {name for stage in _stages(work, evidence.machine) for name in stage.checks}
    reason = f"{work.stage} does not need it" if work.stage else "nothing that this machine may run needs it"
    return tuple(
        CheckResult(
            check=check.name,
            judgement=check.judge(work, evidence) if check.name in wanted else skipped(reason),
        )
        for check in CHECKS
    )


def as_json(work: Assignment, results: tuple[CheckResult, ...]) -> dict[str, Any]:
    """The results for `--json`."""
    return {
        "stage": work.stage.name if work.stage else None,
        "variant": work.subject.name if work.subject else None,
        "ok": not any(result.failed for result in results),
        "checks": [
            {
                "check": result.check,
                "verdict": result.judgement.verdict.value,
                "message": result.judgement.message,
                "fix": result.judgement.fix,
            }
            for result in results
        ],
    }


def _stages(work: Assignment, machine: Machine) -> frozenset[Stage]:
    """The given stage, else the stages of the pools that the machine fits, else all that its hardware allows."""
    if work.stage:
        return frozenset({work.stage})
    suited = {stage for pool in work.spec.pools if fit(work.spec.hardware, machine, pool).fits for stage in pool.stages}
    any_gpu = bool(machine.gpus or machine.problems)
    unsuited = {stage for stage in stages() if any_gpu or not stage.needs_gpu}
    return frozenset(suited or unsuited)


def _subject(spec: Spec, cells: tuple[Cell, ...], name: str) -> AssignedVariant:
    for cell in cells:
        for variant in cell.variants:
            if variant.name == name:
                cuda = spec.hardware.toolkit(cell.cuda) if cell.cuda else None
                return AssignedVariant(name=name, package=spec.packages[variant.package], cell=cell, toolkit=cuda)
    found = explain(plan(spec), name)
    if found.unknown:
        raise wrong("NAME", Code.UNKNOWN_VARIANT, found.unknown)
    raise wrong("NAME", Code.VARIANT_NOT_BUILT, f"{name} is not built: {'; '.join(one.reason for one in found.absent)}")
