"""What must always hold (design), over generated specs and over the bundled one.

1 same bytes, 3 in `test_output`, 4 a variant touches its own shard; what one compiled tree must hold, one check each,
is in `tests.invariants`, and that the checks see a defect, in `test_planted`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from ci_compiler.hardware import CPU, tables
from ci_compiler.plan.pipeline import Plan, plan
from ci_compiler.plan.routing import scarcity
from ci_compiler.spec.build import BUNDLED, BUNDLED_SHOWN, bundled_spec, parse_spec
from ci_compiler.stages import BENCHMARK, BUILD, CPU_TEST, GPU_TEST
from ci_compiler.sync.compiled import compile_files
from tests.invariants import parsed, problems
from tests.specs import documents, spec_of


def check_routes(decided: Plan) -> None:
    """A stage runs on what it needs, and on the least scarce pool that has it."""
    hardware = tables()
    for cell, route in zip(decided.judged.cells, decided.routes, strict=True):
        for stage, pool in route.pools.items():
            assert pool.system == cell.system
            assert stage in pool.stages
            if stage in {CPU_TEST, GPU_TEST, BENCHMARK}:
                assert cell.isa in hardware.runs(pool.cpu, pool.system)
            if stage is GPU_TEST or (stage is BENCHMARK and cell.target != CPU):
                assert hardware.gpu(pool.gpu).runs_code_of(hardware.gpu(cell.target))
            if stage is BUILD:
                fitting = [p for p in decided.spec.pools if p.system == cell.system and stage in p.stages]
                assert scarcity(hardware, pool) == min(scarcity(hardware, other) for other in fitting)
        assert GPU_TEST not in route.pools if cell.target == CPU else True
        wanted = set(decided.spec.stages) - ({GPU_TEST} if cell.target == CPU else set())
        assert route.pools.keys() | route.skipped.keys() == wanted


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(document=documents())
def test_every_generated_spec_satisfies_the_invariants(document: dict[str, Any]) -> None:
    decided = plan(spec_of(document))
    check_routes(decided)
    assert problems(parsed(decided, compile_files(decided))) == {}


def test_the_bundled_stack_satisfies_the_invariants() -> None:
    decided = plan(bundled_spec())
    check_routes(decided)
    assert problems(parsed(decided, compile_files(decided))) == {}


def changed_files(text: str, *replacements: tuple[str, str]) -> set[str]:
    before = compile_files(plan(parse_spec(text.encode(), shown=BUNDLED_SHOWN)))
    for old, new in replacements:
        assert old in text
        text = text.replace(old, new, 1)
    after = compile_files(plan(parse_spec(text.encode(), shown=BUNDLED_SHOWN)))
    return {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}


DOCUMENTS = {".github/BUILD_MATRIX.md"}


@pytest.mark.parametrize(
    ("old", "new", "shard"),
    [
        ("    sm80:\n", "    sm80: {also: {main: [avx]}}\n", "build-main-sm80"),
        ("cpu: {also: {cuda-13_0: [avx]}}", "cpu:", "build-cuda-13_0-cpu"),
        (
            "  gpus:\n",
            "  exclude: [{variants: '*-sm61-avx2', branches: [main], because: slow}]\n  gpus:\n",
            "build-main-sm61",
        ),
    ],
)
def test_a_variant_changes_only_its_own_shard(old: str, new: str, shard: str) -> None:
    changed = changed_files(BUNDLED.read_text("utf-8"), (old, new))
    assert changed - DOCUMENTS == {f".github/workflows/{shard}.yml"}


def variants_in_a_process(root: Path, **environment: str) -> Iterator[bytes]:
    """The compiled tree's bytes, from a process with its own hash seed, folder and locale."""
    command = [sys.executable, "-m", "ci_compiler", "--bundled", "--root", str(root)]
    subprocess.run(command, check=True, cwd=root, env={**os.environ, **environment}, capture_output=True)
    for path in sorted(root.rglob("*")):
        if path.is_file():
            yield path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes()


def test_the_same_bytes_everywhere(tmp_path: Path) -> None:
    results = []
    for name, environment in {
        "one": {"PYTHONHASHSEED": "1", "LC_ALL": "C"},
        "two": {"PYTHONHASHSEED": "77", "LC_ALL": "tr_TR.UTF-8", "TZ": "Asia/Kathmandu", "PYTHONUTF8": "0"},
    }.items():
        (tmp_path / name).mkdir()
        results.append(list(variants_in_a_process(tmp_path / name, **environment)))
    assert results[0] == results[1]
    assert len(results[0]) > 30
