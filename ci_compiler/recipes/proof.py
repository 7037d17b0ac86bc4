"""Shell code by which a build proves that what its recipe declares has arrived, and fails where it has not.

Switches are looked for in CMake's cache as soon as there is one, before hours of compiling. Architectures are looked
for in what CMake has planned (PyTorch) and in the machine code of the finished libraries.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from ci_compiler.files.folders import FUNCTIONS
from ci_compiler.hardware.families import DEFAULT, files_of, nixpkgs
from ci_compiler.recipes import nix_text as nix
from ci_compiler.recipes.parameters import quoted
from ci_compiler.recipes.subject import Subject
from ci_compiler.spec.placeholders import fill

_DEFINITION = re.compile(r"-D([\w.+-]+)(?::[A-Z]+)?=(.*)", re.DOTALL)
"""A CMake flag that sets a variable."""

_PASSED_ON = ("BUILD_", "USE_", "CMAKE_")
"""Variables of the environment that PyTorch's setup.py hands to CMake (tools/setup_helpers/cmake.py)."""

ARRIVED = "arrived"
"""The function that looks for one switch; a call of it has no other effect than to end the build."""

_JUDGE = "built-for"

_FLAGS = '"${lib.concatStringsSep " " cpuFlags}"'

_MOST = "0.5"
"""Of the files that are compiled for the declared architecture, those that may be compiled for another one as well:
PyTorch compiles a few for a newer GPU whatever is declared, and with nixpkgs' defaults it would be all."""


def of_configuration(subject: Subject) -> str:
    """What `preBuild` runs after CMake has configured; '' if the recipe sets nothing there."""
    lines = list(_switches(subject))
    if not lines:
        return ""
    if subject.override.from_environment and subject.capabilities:
        planned = f"{nixpkgs(subject.cell.family)['planned']} | built_for {_MOST} {_numbers(subject)}"
        return "\n".join([*functions(subject, ARRIVED, _judge(subject.cell.family)), *lines, planned])
    return "\n".join([*functions(subject, ARRIVED), *lines])


def of_libraries(subject: Subject) -> str:
    """What `preFixup` runs on the installed libraries; '' if nothing is known of their architectures."""
    if subject.gpu is None or not subject.override.machine_code:
        return ""
    limit = {"only": "0", "also": "1000000"}[subject.override.machine_code]
    spelled = nixpkgs(subject.cell.family)
    tool = f"{spelled['list-code']} {spelled['list-code-options']}"
    # What preBuild defined is still there: one shell runs all phases.
    defined = () if subject.override.from_environment else functions(subject, _judge(subject.cell.family))
    return "\n".join(
        [
            *defined,
            "for output in $(getAllOutputNames); do",
            nix.escape_lines('  [ ! -e "${!output}" ] ||'),
            nix.escape_lines('    find "${!output}" -name "*.so*" -type f -exec ') + tool + r" {} \;",
            f"done | built_for {limit} {_numbers(subject)}",
        ]
    )


def _switches(subject: Subject) -> Iterator[str]:
    """A call for each switch of the recipe that CMake's cache must have."""
    override, values = subject.override, subject.values
    declared: dict[str, str] = {}
    for flag in [*(flag for piece in subject.pieces for flag in piece.cmake), *override.cmake_flags]:
        if match := _DEFINITION.fullmatch(fill(flag, values)):
            declared[match[1]] = quoted(match[2])
    if override.from_environment:
        for name, value in override.environment.items():
            declared[name] = quoted(fill(str(value), values))
        for piece in subject.pieces:
            declared |= {name: fill(value, values) for name, value in piece.exports.items()}
        declared = {name: value for name, value in declared.items() if name.startswith(_PASSED_ON)}
    for piece in subject.pieces:
        declared |= piece.cached
    if declared or override.from_environment:
        optional = "" if override.from_environment else " optional"
        yield from (f"{ARRIVED} {name} {_FLAGS}{optional}" for name in ("CMAKE_C_FLAGS", "CMAKE_CXX_FLAGS"))
    for name, value in declared.items():
        yield f"{ARRIVED} {name} {value}" if f"${name}" not in value else f'{ARRIVED} {name} "${name}"'


def _numbers(subject: Subject) -> str:
    return subject.values["sm"].replace(";", " ")


def functions(subject: Subject, *names: str) -> tuple[str, ...]:
    """The functions of these files, as lines of a Nix string."""
    if subject.is_shared:
        return tuple(f"${{import ./{FUNCTIONS}/{name}.nix}}" for name in names)
    return tuple(map(function, names))


def _judge(family: str) -> str:
    """The name of the function that judges the architectures of `family`."""
    return _JUDGE if family == DEFAULT else f"{_JUDGE}-{family}"


@cache
def function(name: str) -> str:
    """The text of a function, escaped for an indented string of Nix, after those that its family has beside it."""
    families = {_judge(family): family for family in files_of("nixpkgs.json")}
    file = f"{_JUDGE if name in families else name}.sh"
    text = (Path(__file__).parent / FUNCTIONS / file).read_text("utf-8")
    if family := families.get(name):
        own = files_of(file).get(family)
        text = (own.read_text("utf-8") if own else "") + fill(text, nixpkgs(family)["code"])
    return nix.escape_lines(text.rstrip("\n"))
