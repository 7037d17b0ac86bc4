"""What a test stage proves: what is declared, what the tool brings, or only that the package can be imported."""

from __future__ import annotations

from typing import Any

import pytest

from ci_compiler.plan.proof import Proof, is_imported_only, job_title, proof_of
from ci_compiler.stages import BUILD, CPU_TEST, GPU_TEST, PUBLISH
from tests.specs import small, spec_of

FILE = {"python": "tests/smoke.py"}


def fleet(smoke: dict[str, Any] | None = None, **changes: Any) -> Any:
    """The small spec with a package of no known kind, and its smoke test."""
    packages = {"pytorch": {"attribute": "torch"}, "torchvision": {"needs": ["pytorch"]}, "apex": {}}
    packages["apex"] = {"smoke": smoke} if smoke else {}
    document = small(packages=packages, **changes)
    document["branches"]["main"]["versions"]["apex"] = "0.1"
    return spec_of(document)


@pytest.mark.parametrize(
    ("smoke", "on_cpu", "on_gpu"),
    [
        (None, Proof.IMPORTED_ONLY, Proof.IMPORTED_ONLY),
        (FILE, Proof.DECLARED, Proof.DECLARED),
        ({"cpu": FILE}, Proof.DECLARED, Proof.IMPORTED_ONLY),
        ({"gpu": FILE}, Proof.IMPORTED_ONLY, Proof.DECLARED),
    ],
)
def test_what_is_declared_decides_stage_by_stage(smoke: dict[str, Any] | None, on_cpu: Proof, on_gpu: Proof) -> None:
    package = fleet(smoke).packages["apex"]
    assert (proof_of(package, CPU_TEST), proof_of(package, GPU_TEST)) == (on_cpu, on_gpu)


def test_the_tool_brings_the_tests_of_torch() -> None:
    packages = fleet().packages
    assert {proof_of(packages[name], GPU_TEST) for name in ("pytorch", "torchvision")} == {Proof.BUNDLED}


def test_publishing_after_tests_that_only_import_says_so() -> None:
    spec = fleet()
    titles = [job_title(spec, spec.packages["apex"], stage) for stage in (BUILD, CPU_TEST, GPU_TEST, PUBLISH)]
    assert titles == ["build", "cpu-test (imported only)", "gpu-test (imported only)", "publish (imported only)"]
    assert job_title(spec, spec.packages["pytorch"], PUBLISH) == "publish"


@pytest.mark.parametrize(("after", "only"), [(["cpu-test"], False), (["gpu-test"], True), ([], False)])
def test_publishing_counts_only_the_tests_that_it_waits_for(after: list[str], only: bool) -> None:
    spec = fleet({"cpu": FILE}, publish={"after": after})
    assert is_imported_only(spec, spec.packages["apex"], PUBLISH) is only
