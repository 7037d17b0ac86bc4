"""The checkouts that are adopted: the branch of each, and what its recipes evaluate to.

A recipe may import its torch from another repository's archive. Nothing is fetched: if that repository is among the
checkouts, its folder replaces the archive; otherwise a substitute is made from the imported file's name.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from ci_compiler.adoption.evaluation import Evaluation
from ci_compiler.adoption.evaluator import find_recipes, name_of, outcomes_of, recipe_folder, text_of
from ci_compiler.adoption.spec_forms import fits
from ci_compiler.checkout import head_branch
from ci_compiler.codes import Code
from ci_compiler.errors import Finding, InputError, raise_any, wrong
from ci_compiler.hardware import CPU, Hardware
from ci_compiler.hardware.families import DEFAULT, nixpkgs
from ci_compiler.recipes import nix_text as nix
from ci_compiler.variant import RECIPES, VariantName, python_tag

PROCESSES = 4
"""The checkouts that are evaluated at a time."""

_ARCHIVE = re.compile(r"https://github\.com/(?P<owner>[\w.-]+)/(?P<name>[\w.-]+)/(?:archive|tarball)/")
_FILE = re.compile(r"(?P<stem>[\w.-]+)\.nix")


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptedCheckout:
    """A folder of recipes as the user named it, their branch and their paths."""

    folder: Path
    branch: str
    recipes: tuple[Path, ...]


def read_checkouts(folders: Sequence[Path]) -> tuple[AdoptedCheckout, ...]:
    """The checkouts in `folders`, each once. Raises InputError with every folder that has no recipes or no branch."""
    found: dict[Path, AdoptedCheckout] = {}
    findings: list[Finding] = []
    for folder in folders:
        try:
            checkout = AdoptedCheckout(folder=folder, branch=_branch(folder), recipes=find_recipes(folder))
            found.setdefault(folder.resolve(), checkout)
        except InputError as error:
            findings += error.findings
    raise_any(findings)
    return tuple(found.values())


def _branch(folder: Path) -> str:
    """The branch that is checked out in `folder`; the folder's name if it is no git checkout, or on no branch."""
    full = folder.resolve()
    root = full.parents[1] if full.parts[-2:] == Path(RECIPES).parts else full
    name = head_branch(root) or root.name
    if folder.is_dir() and not fits("branch-name", name):
        message = f"{name!r} is not a branch name; check out a branch there, or name the folder after its branch"
        raise wrong(folder, Code.UNKNOWN_BRANCH, message)
    return name


def evaluate_all(
    checkouts: Sequence[AdoptedCheckout], chosen: Mapping[Path, str], hardware: Hardware
) -> tuple[dict[Path, Evaluation], dict[Path, Finding]]:
    """The evaluations of the `chosen` recipes, and a finding for each that cannot be evaluated.

    The values of `chosen` are groups. Once a group is known to fail, its other recipes are not tried.
    """
    chosen_of = [
        replace(checkout, recipes=tuple(filter(chosen.__contains__, checkout.recipes))) for checkout in checkouts
    ]
    some = [checkout for checkout in chosen_of if checkout.recipes]

    def outcomes(checkout: AdoptedCheckout) -> dict[Path, Evaluation | Finding]:
        with tempfile.TemporaryDirectory(prefix="ci-compiler-") as scratch:
            archives = dict(_archives(checkout, some, hardware, Path(scratch)))
            return outcomes_of(checkout.folder, checkout.recipes, tarballs=archives, groups=chosen)

    with ThreadPoolExecutor(PROCESSES) as threads:
        every = [item for each in threads.map(outcomes, some) for item in each.items()]
    return (
        {path: outcome for path, outcome in every if isinstance(outcome, Evaluation)},
        {path: outcome for path, outcome in every if isinstance(outcome, Finding)},
    )


# The archives of other repositories.


def _archives(
    checkout: AdoptedCheckout, checkouts: Sequence[AdoptedCheckout], hardware: Hardware, scratch: Path
) -> Iterator[tuple[str, Path]]:
    """A folder for each archive that the recipes of `checkout` may fetch, by the start of its address."""
    shared = (recipe_folder(checkout.folder) / "lib").rglob("*.nix")
    text = "\n".join(map(text_of, [*checkout.recipes, *sorted(path for path in shared if path.is_file())]))
    stems = {match["stem"] for match in _FILE.finditer(text)}
    imported = sorted(filter(VariantName.parse, stems - _stems(checkout)))
    others = [other for other in checkouts if other.branch == checkout.branch and other is not checkout]
    for address, name in sorted({(match[0], match["name"]) for match in _ARCHIVE.finditer(text)}):
        if name.lower() == "nixpkgs":
            continue
        named = [one for one in others if one.folder.resolve().name == name]
        holding = [one for one in others if _stems(one) & set(imported)]
        if known := [*named, *holding]:
            yield address, known[0].folder
        elif imported:
            yield address, _stand_in(scratch / name, imported, hardware)


def _stems(checkout: AdoptedCheckout) -> set[str]:
    return {name_of(path) for path in checkout.recipes}


def _stand_in(folder: Path, stems: Sequence[str], hardware: Hardware) -> Path:
    """A repository in `folder` with a torch recipe for each of `stems` whose hardware is known."""
    (folder / RECIPES).mkdir(parents=True)
    for stem in stems:
        if text := _torch(stem, hardware):
            (folder / RECIPES / f"{stem}.nix").write_text(text, "utf-8")
    return folder


def _torch(stem: str, hardware: Hardware) -> str:
    """A recipe that builds what the name `stem` says; '' if the tables lack its hardware."""
    parts = VariantName.parse(stem)
    isa = hardware.isas.get(parts.isa) if parts else None
    gpu = hardware.gpus.get(parts.target) if parts else None
    toolkit = hardware.toolkits.get(parts.toolkit) if parts else None
    if parts is None or isa is None or (parts.target != CPU and not (gpu and toolkit)):
        return ""
    spelled = nixpkgs(DEFAULT)
    arguments, override = "{ }", f"{{ {spelled['support']} = false; }}"
    if gpu and toolkit:
        overlay = f"(final: prev: {{ {spelled['packages']} = final.{toolkit.attribute}; }})"
        arguments = f"{{ config.{spelled['support']} = true; overlays = [ {overlay} ]; }}"
        override = f"{{ {spelled['support']} = true; gpuTargets = [ {nix.string(str(gpu.capability))} ]; }}"
    flags = nix.string(f"export CXXFLAGS='{' '.join(isa.flags)}'")
    package = f"(import <nixpkgs> {arguments}).{python_tag(parts.python)}Packages.torch"
    made = f"({package}.override {override}).overrideAttrs {{ pname = {nix.string(stem)}; preConfigure = {flags}; }}"
    # A recipe that imports this one may call it or use it as it is.
    return f"let torch = {made}; in torch // {{ __functor = _: _: torch; }}\n"
