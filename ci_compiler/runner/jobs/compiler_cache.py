"""The compiler cache of a build script: a folder of the checkout, which the workflow fetches and keeps.

Which run may keep it is decided when the workflow is compiled: what a pull request compiles is never read by another
run. Here is only decided whether a build uses it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from ci_compiler.codes import Code
from ci_compiler.errors import wrong
from ci_compiler.hardware.families import family_of
from ci_compiler.plan.lookup import BuiltVariant
from ci_compiler.spec.command import CompilerCache
from ci_compiler.workflows.compiler_cache import FOLDER, READ_ONLY, RELEASE, TRUST, VARIABLE

_LANGUAGES = ("C", "CXX")


def rule_of(built: BuiltVariant, environment: Mapping[str, str]) -> CompilerCache | None:
    """How the build of `built` uses a compiler cache in a job with `environment`; None if it does not.

    Raises InputError for a word that no workflow hands over.
    """
    mode = environment.get(VARIABLE, "")
    if mode and mode not in TRUST:
        raise wrong(VARIABLE, Code.WRONG_OPTION, f"{mode!r} is none of {', '.join(TRUST)}")
    command = built.spec.packages[built.variant.package].command
    rule = command.compiler_cache if command else None
    return rule if mode and rule and (rule.releases or mode != RELEASE) else None


def keeps(built: BuiltVariant, environment: Mapping[str, str]) -> bool:
    """Whether the cache is kept after the build of `built`."""
    return rule_of(built, environment) is not None and environment.get(VARIABLE) != READ_ONLY


def variables(built: BuiltVariant, environment: Mapping[str, str], root: Path) -> dict[str, str]:
    """The variables by which the compilers of the build go through the cache, CMake's included; none without one."""
    rule = rule_of(built, environment)
    if rule is None:
        return {}
    folder, size = os.fspath(root.absolute() / FOLDER), f"{rule.size}G"
    own = {
        "ccache": {"CCACHE_DIR": folder, "CCACHE_MAXSIZE": size, "CCACHE_BASEDIR": os.fspath(root.absolute())},
        "sccache": {"SCCACHE_DIR": folder, "SCCACHE_CACHE_SIZE": size},
    }
    languages = filter(None, (*_LANGUAGES, family_of(built.cell.family).language))
    return own[rule.program] | {f"CMAKE_{language}_COMPILER_LAUNCHER": rule.program for language in languages}
