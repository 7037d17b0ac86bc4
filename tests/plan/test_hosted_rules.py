"""Machines of GitHub end a job after six hours: limits and builds beyond that are warnings."""

from __future__ import annotations

from typing import Any

import pytest

from ci_compiler.plan.pipeline import plan
from tests.specs import small, spec_of

OWN = {"runs-on": ["self-hosted", "linux", "x64"], "cpu": ["avx2"], "disk": 900, "memory": 900, "cores": 4}
HOSTED = {"hosted": "ubuntu-24.04"}
SMALL_PACKAGE = {"disk": 1, "memory": 1}


def warned(pool: dict[str, Any], **changes: Any) -> list[str]:
    matrix = {"python": ["3.13"], "isas": {"x86_64-linux": ["avx2"]}, "gpus": {"cpu": {}}}
    packages = {
        "pytorch": SMALL_PACKAGE | {"attribute": "torch"} | changes.pop("package", {}),
        "torchvision": SMALL_PACKAGE,
    }
    spec = spec_of(small(runners={"builder": pool}, matrix=matrix, packages=packages, **changes))
    return [finding.message for finding in plan(spec).warnings if finding.code == "hosted-hours"]


@pytest.mark.parametrize(("minutes", "found"), [(360, 0), (361, 1)])
def test_a_time_limit_beyond_six_hours_is_a_warning(minutes: int, found: int) -> None:
    messages = warned(HOSTED, timeouts={"build": minutes})
    assert len(messages) == found
    for message in messages:
        assert message == (
            "GitHub ends a job on builder (ubuntu-24.04) after 6 h, before the 6 h 1 min that `timeouts` gives to "
            "build; run it on machines of your own, or lower it to 360"
        )
    assert warned(OWN, timeouts={"build": minutes}) == []


def test_a_build_that_takes_longer_is_a_warning_where_the_spec_states_its_minutes() -> None:
    (message,) = warned(HOSTED, package={"minutes": {"cpu": 300, "gpu": 1}})
    assert message.startswith("a build of pytorch takes about ")
    assert message.endswith(
        " on builder (ubuntu-24.04, 4 cores), and GitHub ends its job after 6 h; build on machines of your own, or on "
        "more cores"
    )
    assert warned(HOSTED, package={"minutes": {"cpu": 1, "gpu": 7200}}) == []
    assert warned(OWN, package={"minutes": {"cpu": 7200, "gpu": 1}}) == []
    assert warned(HOSTED) == []
