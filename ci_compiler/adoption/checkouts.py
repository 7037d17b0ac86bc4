"""The checkouts that are adopted: whose branch each is, and what its recipes evaluate to.

A recipe may take its torch from another repository's archive. Where that repository is among the checkouts, its folder
stands in for the archive; else a stand-in is made of what the imported file's name says, since nothing is fetched.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from ci_compiler.adoption.evaluation import Evaluation
from ci_compiler.adoption.evaluator import evaluate, find_recipes, name_of, recipe_folder, text_of
from ci_compiler.adoption.spec_forms import fits
from ci_compiler.codes import Code
from ci_compiler.errors import Finding, InputError, wrong
from ci_compiler.git import head_branch
from ci_compiler.hardware import Hardware
from ci_compiler.recipes import nix_text as nix
from ci_compiler.variant import RECIPES

SECONDS, SECONDS_A_RECIPE = 60.0, 0.1
"""How long a checkout's recipes may take: a thousand take a few seconds."""
PROCESSES = 4
"""How many checkouts are evaluated at a time, at half a gigabyte each."""

_ARCHIVE = re.compile(r"https://github\.com/(?P<owner>[\w.-]+)/(?P<name>[\w.-]+)/(?:archive|tarball)/")
_FILE = re.compile(r"(?P<stem>[A-Za-z]\w*-python3\d+-(?:cpu|cuda\d+_\d+-sm\d+)-\w+)\.nix")
_STEM = re.compile(r"\w+-python3(?P<python>\d+)-(?:cpu|cuda(?P<cuda>\d+_\d+)-(?P<gpu>sm\d+))-(?P<isa>\w+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptedCheckout:
    """A folder of recipes as the user named it, the branch that they are of, and their paths."""

    folder: Path
    branch: str
    recipes: tuple[Path, ...]


def read_checkouts(folders: Sequence[Path]) -> tuple[AdoptedCheckout, ...]:
    """The checkouts in `folders`, each once. Raises InputError for every one without recipes or a branch."""
    found: dict[Path, AdoptedCheckout] = {}
    findings: list[Finding] = []
    for folder in folders:
        try:
            made = AdoptedCheckout(folder=folder, branch=_branch(folder), recipes=find_recipes(folder))
            found.setdefault(folder.resolve(), made)
        except InputError as error:
            findings += error.findings
    if findings:
        raise InputError(findings)
    return tuple(found.values())


def _branch(folder: Path) -> str:
    """The branch that is checked out in `folder`; its name where git knows nothing of it, or no branch is."""
    full = folder.resolve()
    root = full.parents[1] if full.parts[-2:] == Path(RECIPES).parts else full
    name = head_branch(root) or root.name
    if folder.is_dir() and not fits("branch-name", name):
        message = f"{name!r} is no branch's name; check a branch out there, or call the folder by its name"
        raise wrong(folder, Code.UNKNOWN_BRANCH, message)
    return name


def evaluate_all(
    checkouts: Sequence[AdoptedCheckout], hardware: Hardware
) -> tuple[list[tuple[AdoptedCheckout, Evaluation]], list[Finding]]:
    """What the recipes of all checkouts evaluate to, in order, and what of them cannot be evaluated."""
    with tempfile.TemporaryDirectory(prefix="ci-compiler-") as scratch, ThreadPoolExecutor(PROCESSES) as threads:
        archives = [
            dict(_archives(one, checkouts, hardware, Path(scratch) / str(index))) for index, one in enumerate(checkouts)
        ]
        outcomes = list(threads.map(_evaluate, checkouts, archives))
    evaluations = [(one, each) for one, (found, _) in zip(checkouts, outcomes, strict=True) for each in found]
    return evaluations, [finding for _, findings in outcomes for finding in findings]


def _evaluate(
    checkout: AdoptedCheckout, archives: Mapping[str, Path]
) -> tuple[tuple[Evaluation, ...], tuple[Finding, ...]]:
    timeout = SECONDS + SECONDS_A_RECIPE * len(checkout.recipes)
    return evaluate(checkout.folder, checkout.recipes, timeout=timeout, tarballs=archives)


# Other repositories' archives.


def _archives(
    checkout: AdoptedCheckout, checkouts: Sequence[AdoptedCheckout], hardware: Hardware, scratch: Path
) -> Iterator[tuple[str, Path]]:
    """A folder for every archive that the recipes of `checkout` may fetch, by the beginning of its address."""
    text = "\n".join(map(text_of, _files(checkout)))
    imported = sorted({found["stem"] for found in _FILE.finditer(text)} - _stems(checkout))
    others = [one for one in checkouts if one.branch == checkout.branch and one is not checkout]
    for address, name in sorted({(found[0], found["name"]) for found in _ARCHIVE.finditer(text)}):
        if name.lower() == "nixpkgs":
            continue
        named = [one for one in others if one.folder.resolve().name == name]
        holding = [one for one in others if _stems(one) & set(imported)]
        if known := [*named, *holding]:
            yield address, known[0].folder
        elif imported:
            yield address, _stand_in(scratch / name, imported, hardware)


def _files(checkout: AdoptedCheckout) -> list[Path]:
    shared = recipe_folder(checkout.folder) / "lib"
    return [*checkout.recipes, *sorted(path for path in shared.rglob("*.nix") if path.is_file())]


def _stems(checkout: AdoptedCheckout) -> set[str]:
    return {name_of(path) for path in checkout.recipes}


def _stand_in(folder: Path, stems: Sequence[str], hardware: Hardware) -> Path:
    """A repository in `folder` with a torch for each of `stems` that is a variant's name."""
    pkgs = folder / RECIPES
    pkgs.mkdir(parents=True)
    for stem in stems:
        if text := _torch(stem, hardware):
            (pkgs / f"{stem}.nix").write_text(text, "utf-8")
    return folder


def _torch(stem: str, hardware: Hardware) -> str:
    """A recipe for what the name `stem` says; '' where the tables do not know it."""
    parts = _STEM.fullmatch(stem)
    isa = hardware.isas.get(parts["isa"]) if parts else None
    gpu = hardware.gpus.get(parts["gpu"] or "") if parts else None
    toolkit = hardware.toolkits.get((parts["cuda"] or "").replace("_", ".")) if parts else None
    if parts is None or isa is None or bool(parts["gpu"]) != bool(gpu and toolkit):
        return ""
    arguments, override = "{ }", "{ cudaSupport = false; }"
    if gpu and toolkit:
        overlay = f"(final: prev: {{ cudaPackages = final.{toolkit.attribute}; }})"
        arguments = f"{{ config.cudaSupport = true; overlays = [ {overlay} ]; }}"
        override = f"{{ cudaSupport = true; gpuTargets = [ {nix.string(str(gpu.capability))} ]; }}"
    flags = nix.string(f"export CXXFLAGS='{' '.join(isa.flags)}'")
    package = f"(import <nixpkgs> {arguments}).python3{parts['python']}Packages.torch"
    made = f"({package}.override {override}).overrideAttrs {{ pname = {nix.string(stem)}; preConfigure = {flags}; }}"
    # Some import a recipe as it is, some call it.
    return f"let torch = {made}; in torch // {{ __functor = _: _: torch; }}\n"
