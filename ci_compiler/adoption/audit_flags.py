"""Compiler flags of a recipe that turn on more than the instruction set in its name, or less."""

from __future__ import annotations

from collections.abc import Iterator

from ci_compiler.adoption.evaluation import Evaluation
from ci_compiler.codes import Code
from ci_compiler.errors import Finding, Place
from ci_compiler.hardware import Hardware, Isa
from ci_compiler.hardware.features import UnknownFlagError, declaration, features, least, refined

_VARIABLES = ("CXXFLAGS", "CFLAGS", "NIX_CFLAGS_COMPILE")


def machine_flags(one: Evaluation, variable: str) -> tuple[str, ...]:
    """The flags in `variable` that choose instructions."""
    return tuple(
        flag for flag in one.flags.get(variable, ()) if flag.startswith("-m") and not flag.startswith("-mtune=")
    )


def wrong_flags(one: Evaluation, isa: Isa, hardware: Hardware) -> Iterator[Finding]:
    """A finding for each way in which the flags of a recipe, or those of its torch, do not fit `isa`.

    Fewer features than those of `isa` are no defect, unless a lower ISA has them all.
    """
    subjects = [each for each in (one, one.torch) if each and any(machine_flags(each, name) for name in _VARIABLES)]
    if one.package == "torch" and not subjects and isa.flags:
        yield _at(one, Code.WRONG_CPU_FLAGS, f"no compiler flag turns on {isa.title}")
    for each in subjects:
        variables: dict[tuple[str, ...], list[str]] = {}
        for name in _VARIABLES:
            if given := machine_flags(each, name):
                variables.setdefault(given, []).append(name)
        for given, names in variables.items():
            for code, message in _judged(" and ".join(names), given, isa, hardware):
                yield _at(each, code, message)


def _judged(names: str, given: tuple[str, ...], isa: Isa, hardware: Hardware) -> Iterator[tuple[Code, str]]:
    """What is wrong with the flags `given`, which the variables `names` have, for `isa`."""
    try:
        here, wanted = features(given), features(isa.flags)
    except UnknownFlagError as error:
        yield Code.UNKNOWN_FLAG, f"{names}: {error}"
        return
    if more := here - wanted:
        remedy = f"declare it so ({declaration(refined(isa, given))}), or remove the flags"
        message = f"flags in {names} turn on {', '.join(least(more))}, which {isa.name} does not have; {remedy}"
        yield Code.FLAGS_EXCEED_ISA, message
    lacking = wanted - here
    if lacking and (lower := _lower(isa, here, hardware)):
        message = f"flags in {names} turn on no more than {lower}; {isa.name} has {', '.join(least(lacking))} too"
        yield Code.WRONG_CPU_FLAGS, message


def _lower(isa: Isa, here: frozenset[str], hardware: Hardware) -> str:
    """The lower ISA that has all of `here`; '' if `here` goes beyond each that `isa` includes."""
    if not here:
        return "what every CPU has"
    lower = [hardware.isa(name) for name in hardware.runs(isa.includes)]
    return next((one.title for one in lower if here <= features(one.flags)), "")


def _at(one: Evaluation, code: Code, message: str) -> Finding:
    place = one.places.get("preConfigure") or Place(file=str(one.path), line=1, column=1)
    return Finding(place=place, code=code, message=message)
