"""The versions that a run decided on, in place of those of the spec."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from ci_compiler.codes import Code
from ci_compiler.errors import wrong
from ci_compiler.outside import object_of
from ci_compiler.spec.model import Spec

VARIABLE = "CI_COMPILER_VERSIONS"
"""The environment variable with the versions that the run decided on, as JSON: by branch, then by package."""

NIGHT = "night"
"""The input of a run with the date of a night. A run that is repeated has it again."""

_VERSION = re.compile("[0-9][0-9A-Za-z.+-]{0,39}")


def decides_versions(spec: Spec) -> bool:
    """Whether runs decide on versions: the spec alone does not know them."""
    rules = (package.command.version for package in spec.packages.values() if package.command)
    return any(rule and (rule.command or rule.tag or rule.night) for rule in rules)


def has_nights(spec: Spec) -> bool:
    """Whether a package has other versions in a run of the night."""
    return any(
        package.command and package.command.version and package.command.version.night
        for package in spec.packages.values()
    )


def with_versions(spec: Spec, found: Mapping[str, Mapping[str, str]]) -> Spec:
    """`spec` with the versions in `found`, by branch and package, in place of its own."""
    branches = {
        name: replace(branch, versions={**branch.versions, **found.get(name, {})})
        for name, branch in spec.branches.items()
    }
    return replace(spec, branches=branches)


def with_decided(spec: Spec, text: str) -> Spec:
    """`spec` with the versions that `text`, the value of `VARIABLE`, has; none if it is ''. Raises InputError."""
    if not text:
        return spec
    try:
        found = {branch: checked(versions) for branch, versions in object_of(text).items()}
    except (AttributeError, TypeError, ValueError):
        raise wrong(VARIABLE, Code.VERSION_UNKNOWN, "holds no versions by branch and package") from None
    return with_versions(spec, found)


def checked(versions: Mapping[str, str]) -> dict[str, str]:
    """`versions`, if each is one. Raises ValueError or TypeError."""
    for package, version in versions.items():
        if not _VERSION.fullmatch(version):
            message = f"{version!r} is not a version of {package} (digits, letters and . + -, a digit first)"
            raise ValueError(message)
    return dict(versions)
