"""The versions that a run decided on take the place of those of the spec."""

from __future__ import annotations

from typing import Any

import pytest

from ci_compiler.errors import InputError
from ci_compiler.spec.versions import VARIABLE, checked, decides_versions, has_nights, with_decided, with_versions
from tests.specs import small, spec_of

SPEC = spec_of(small())


def by_commands(version: dict[str, Any] | None) -> Any:
    """A package of commands with the rule `version`."""
    command = {"build": "b", "files": ["f"], "publish": "p", "install": "i"} | ({"version": version} if version else {})
    document = small(backend="command", packages={"pytorch": {"command": command}})
    stated = {} if version and version.keys() & {"command", "tag"} else {"versions": {"pytorch": "1.0"}}
    document["branches"]["main"] = {"cuda": "12.8", **stated}
    return spec_of(document)


@pytest.mark.parametrize(
    ("version", "decides", "nights"),
    [
        (None, False, False),
        ({"command": "git describe"}, True, False),
        ({"tag": "v{version}"}, True, False),
        ({"command": "x", "night": "{version}.dev{date}"}, True, True),
        ({"night": "{version}.dev{date}"}, True, True),
        ({"local": "cu128"}, False, False),
    ],
)
def test_a_run_decides_where_the_spec_alone_does_not_know(
    version: dict[str, Any] | None, *, decides: bool, nights: bool
) -> None:
    spec = by_commands(version)
    assert (decides_versions(spec), has_nights(spec)) == (decides, nights)


def test_one_package_with_nights_among_others_is_enough() -> None:
    command = {"build": "b", "files": ["f"], "publish": "p", "install": "i"}
    packages = {
        "pytorch": {"command": command | {"version": {"night": "{version}.dev{date}"}}},
        "torchvision": {"command": command},
    }
    spec = spec_of(small(backend="command", packages=packages))
    assert (decides_versions(spec), has_nights(spec)) == (True, True)


def test_recipes_decide_no_versions() -> None:
    assert not decides_versions(SPEC)
    assert not has_nights(SPEC)


def test_versions_take_the_place_of_those_of_the_spec() -> None:
    found = with_versions(SPEC, {"main": {"pytorch": "2.9.0.dev1"}, "gone": {"pytorch": "1"}})
    assert {name: dict(branch.versions) for name, branch in found.branches.items()} == {
        "main": {"pytorch": "2.9.0.dev1", "torchvision": "0.23.0"}
    }


def test_the_variable_holds_them_as_json() -> None:
    assert with_decided(SPEC, "") is SPEC
    found = with_decided(SPEC, '{"main": {"torchvision": "1.0+cu128"}}')
    assert found.branches["main"].versions == {"pytorch": "2.8.0", "torchvision": "1.0+cu128"}


@pytest.mark.parametrize("text", ["x", "[]", '{"main": 1}', '{"main": {"pytorch": 2}}', '{"main": {"pytorch": "v1"}}'])
def test_another_text_is_an_error(text: str) -> None:
    with pytest.raises(InputError) as caught:
        with_decided(SPEC, text)
    assert str(caught.value) == f"{VARIABLE}: holds no versions by branch and package [version-unknown]"


@pytest.mark.parametrize("version", ["1", "2.9.0.dev20261127+cu130", "1-2", "0" * 40])
def test_a_version_begins_with_a_digit(version: str) -> None:
    assert checked({"p": version}) == {"p": version}


@pytest.mark.parametrize("version", ["", "v1", "1 2", "0" * 41, "1\n"])
def test_what_is_no_version_is_refused(version: str) -> None:
    with pytest.raises(ValueError, match="is not a version of p ") as caught:
        checked({"p": version})
    assert str(caught.value) == f"{version!r} is not a version of p (digits, letters and . + -, a digit first)"
