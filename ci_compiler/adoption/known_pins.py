"""What the stand-in knows of nixpkgs, from the tables here, as a Nix file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ci_compiler.hardware.families import files_of, nixpkgs
from ci_compiler.recipes import nix_text as nix
from ci_compiler.spec.releases import facts


def readable() -> tuple[Path, ...]:
    """The files that the Nix file imports or that those read: what families have of nixpkgs, and their tables."""
    return tuple(
        path
        for name in ("standin.nix", "nixpkgs.json", "gpus.json", "toolkits.json")
        for path in files_of(name).values()
    )


def known() -> str:
    """A Nix set of what is known: `families`, with the functions of their files; `unfree`, their licences; and `pins`.

    A pin is a revision of nixpkgs, with its default `python` and `toolkit`, the `versions` of its packages, what is
    known of their `derivations`, and `functions`: for each package, a function with the parameters of nixpkgs' own.
    Each returns its arguments. Its parameters are optional, since `override` replaces some of those that `callPackage`
    gave. Nix refuses any other argument, in its own words.
    """
    pins = nix.attributes({pin: _pin(row) for pin, row in facts()["pins"].items()})
    rows = [{"name": nix.string(name), "of": f"import {path}"} for name, path in files_of("standin.nix").items()]
    families = nix.listed(list(map(nix.attributes, rows)))
    unfree = "[ " + " ".join(map(nix.string, _unfree())) + " ]"
    newest = nix.string(facts()["newest"])
    return nix.attributes({"newest": newest, "families": families, "unfree": unfree, "pins": pins}) + "\n"


def _unfree() -> list[str]:
    """The names in nixpkgs of the families' licences that are not free."""
    return [name for family in files_of("nixpkgs.json") for name in nixpkgs(family).get("unfree", ())]


def _pin(row: Mapping[str, Any]) -> str:
    versions = nix.attributes({name: nix.string(version) for name, version in row["versions"].items()})
    functions = {attribute: _function(names.split()) for attribute, names in row.get("arguments", {}).items()}
    return nix.attributes(
        {
            "python": nix.string(row["python"]),
            "toolkit": nix.string(row["toolkit"]),
            "versions": versions,
            "derivations": nix.attributes({name: _lists(own) for name, own in row["derivations"].items()}),
            "functions": nix.attributes(functions),
        }
    )


def _lists(row: Mapping[str, str]) -> str:
    return nix.attributes({key: f"[ {' '.join(map(nix.string, words.split()))} ]" for key, words in row.items()})


def _function(names: Iterable[str]) -> str:
    return f"{{ {', '.join(f'{name} ? null' for name in names)} }}@given: given"
