"""Machines of GitHub end a job after six hours: limits and builds beyond that are warnings."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ci_compiler.plan.hosted_rules import hosted_findings
from ci_compiler.plan.pipeline import plan
from tests.specs import small, spec_of

OWN = {"runs-on": ["self-hosted", "linux", "x64"], "cpu": ["avx2"], "disk": 900, "memory": 900, "cores": 4}
HOSTED = {"hosted": "ubuntu-24.04"}
SMALL_PACKAGE = {"disk": 1, "memory": 1}


def warned(pool: dict[str, Any], *, gpu: str = "cpu", **changes: Any) -> list[tuple[str, str]]:
    """The text at the place of each warning, and its message."""
    matrix = {"python": ["3.13"], "isas": {"x86_64-linux": ["avx2"]}, "gpus": {gpu: {}}}
    packages = {
        "pytorch": SMALL_PACKAGE | {"attribute": "torch"} | changes.pop("package", {}),
        "torchvision": SMALL_PACKAGE,
    }
    document = small(runners={"builder": pool}, matrix=matrix, packages=packages, **changes)
    text = json.dumps(document)
    found = [finding for finding in plan(spec_of(document)).warnings if finding.code == "hosted-hours"]
    return [(text[finding.place.column - 1 :].partition("}")[0], finding.message) for finding in found]


@pytest.mark.parametrize(("minutes", "found"), [(360, 0), (361, 1)])
def test_a_time_limit_beyond_six_hours_is_a_warning(minutes: int, found: int) -> None:
    messages = warned(HOSTED, timeouts={"build": minutes})
    assert len(messages) == found
    for there, message in messages:
        assert there == "361"
        assert message == (
            "GitHub ends a job on builder (ubuntu-24.04) after 6 h, before the 6 h 1 min that `timeouts` gives to "
            "build; run it on machines of your own, or lower it to 360"
        )
    assert warned(OWN, timeouts={"build": minutes}) == []


def test_a_build_that_takes_longer_is_a_warning_where_the_spec_states_its_minutes() -> None:
    ((there, message),) = warned(HOSTED, package={"minutes": {"cpu": 300, "gpu": 1}})
    assert there == '300, "gpu": 1'
    assert message.startswith("a build of pytorch takes about ")
    assert message.endswith(
        " on builder (ubuntu-24.04, 4 cores), and GitHub ends its job after 6 h; build on machines of your own, or on "
        "more cores"
    )
    assert warned(HOSTED, package={"minutes": {"cpu": 1, "gpu": 7200}}) == []
    assert warned(OWN, package={"minutes": {"cpu": 7200, "gpu": 1}}) == []
    assert [there for there, _ in warned(HOSTED, gpu="sm90", package={"minutes": {"cpu": 1, "gpu": 7200}})] == ["7200"]
    assert warned(HOSTED) == []


def test_machines_of_ones_own_have_no_limit() -> None:
    document = small(
        runners={"own": OWN},
        matrix={"python": ["3.13"], "isas": {"x86_64-linux": ["avx2"]}, "gpus": {"cpu": {}}},
        packages={"pytorch": SMALL_PACKAGE | {"minutes": {"cpu": 7200, "gpu": 1}}, "torchvision": SMALL_PACKAGE},
        timeouts={"build": 7200},
    )
    decided = plan(spec_of(document))
    assert list(hosted_findings(decided.spec, zip(decided.judged.cells, decided.routes, strict=True))) == []
