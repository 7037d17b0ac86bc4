"""The files of the overlay: what every fleet shares is in `files/`, the rest is made here.

`default.nix` imports the recipes of each branch as they are. So each package is the derivation that is built and
published, whatever nixpkgs the user has.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ci_compiler.backends.protocol import CachePush
from ci_compiler.codes import Code
from ci_compiler.errors import InputError, wrong
from ci_compiler.files.drift import MARK, Territory
from ci_compiler.hardware import CPU
from ci_compiler.hardware.families import DEFAULT, family_of
from ci_compiler.plan.matrix import Cell, Variant
from ci_compiler.plan.pins import named_commits
from ci_compiler.plan.pipeline import Plan
from ci_compiler.plan.records import Records
from ci_compiler.recipes import nix_text as nix
from ci_compiler.recipes.render import recipes
from ci_compiler.reports.evidence import UNKNOWN, Proofs, proofs
from ci_compiler.reports.offers import branch_levels, python_order, recalled
from ci_compiler.reports.reasons import listed
from ci_compiler.spec.axes import AXES, PARTS
from ci_compiler.spec.model import RecipeKind, Spec, in_build_order
from ci_compiler.spec.placeholders import fill
from ci_compiler.spec.pools import NIXOS_CACHE, Cache
from ci_compiler.variant import RECIPES

_FILES = Path(__file__).with_name("files")
_AXES = {
    "branch": "branch", "python": "python", "toolkit": "toolkit", "gpu": "target", "isa": "isa", "system": "system",
    "listed": "listed",
}  # fmt: skip
"""What tells one cell from another: the names in the overlay, and the fields of a cell."""
_TAKEN = {
    *_AXES, *("name", "attribute", "version", "device", "code", "recalled", "proof"),
    *("assert", "else", "if", "in", "inherit", "let", "or", "rec", "then", "with"),
}  # fmt: skip
"""The attributes of a variant that are no axis of the spec, and the words of Nix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """Where the recipes of a branch are fetched from: the URL of a git repository, and the commit."""

    url: str
    commit: str


def territory(folder: str) -> Territory:
    """The folder of the overlay. A branch's name may have slashes."""
    branches = (f"recipes/{'*/' * depth}*.nix" for depth in range(1, 5))
    return Territory(folder=folder, patterns=("*.nix", "*.md", "*.py", *branches))


def fetched_branches(plan: Plan) -> tuple[str, ...]:
    """The published branches whose recipes are fetched from the repository: its own, or such as read its files."""
    return tuple(dict.fromkeys(
        cell.branch for cell, variant in _published(plan) if not _stands_alone(plan.spec, variant)
    ))  # fmt: skip


def _stands_alone(spec: Spec, variant: Variant) -> bool:
    """Whether the recipe is made from the spec, and reads no file of the repository but other recipes."""
    package = spec.packages[variant.package]
    return package.kind_of(variant.name) is RecipeKind.COMPILED and not (package.shared or package.overlays)


def cache_of(spec: Spec) -> Cache | None:
    """The cache that serves what is published; None if there is none, as where packages are published elsewhere."""
    return spec.cache if spec.backend.publishes_into_cache else None


def overlay(
    plan: Plan, templates: Mapping[str, str], fetched: Mapping[str, Fetched], records: Records | None = None
) -> dict[str, str]:
    """The files by path. `fetched` says where each of `fetched_branches` is. Raises InputError.

    `records`: the history, if one is given.
    """
    spec = plan.spec
    if not any(_published(plan)):
        raise wrong(spec.document.file, Code.EMPTY_MATRIX, "no branch is published, so there is nothing to serve")
    known = proofs(spec, plan.judged.cells, plan.routes, records)
    files = {"fleet.nix": f"# {_heading(spec)}\n{_fleet(plan, fetched, known)}"}
    for branch in dict.fromkeys(cell.branch for cell, _ in _published(plan)):
        if branch not in fetched:
            made = recipes(spec, plan.judged, branch, templates, self_contained=True)
            nix_files = {path: text for path, text in made.items() if path.endswith(".nix")}
            files |= {f"recipes/{branch}/{PurePosixPath(path).name}": text for path, text in nix_files.items()}
    words = _words(plan)
    return files | {path.name: fill(path.read_text("utf-8"), words) for path in sorted(_FILES.glob("*.*"))}


def _published(plan: Plan, known: Proofs = UNKNOWN) -> Iterator[tuple[Cell, Variant]]:
    """The variants of the branches that are published, best first: `choose` in default.nix takes the first that fits.

    The newest toolkit comes first, then the newest versions, what lacks the fewest of its tests, as far as they are
    `known`, the first branch, and the newest Python. Variants that fit no axis come last.
    """
    spec = plan.spec
    levels = branch_levels(spec, [package.name for package in in_build_order(spec.packages)])
    branches = {name: at for at, name in enumerate(levels)}
    pythons = {name: at for at, name in enumerate(python_order(spec))}

    def rank(cell: Cell) -> tuple[object, ...]:
        first, second = spec.hardware.toolkit(cell.toolkit).version if cell.toolkit else (0, 0)
        few = -len(cell.values)  # packages that ignore axes are found by the cells of those that do not
        lacks = sum(len(known[cell.branch, variant.name].untested) for variant in cell.variants if known)
        newest = -first, -second, levels[cell.branch]
        return bool(cell.listed), few, *newest, lacks, branches[cell.branch], pythons.get(cell.python, 0)

    cells = (cell for cell in plan.judged.cells if spec.branches[cell.branch].publish)
    return ((cell, variant) for cell in sorted(cells, key=rank) for variant in cell.variants)


# fleet.nix.


def _fleet(plan: Plan, fetched: Mapping[str, Fetched], known: Proofs) -> str:
    published = list(_published(plan, known))
    said = list(dict.fromkeys(str(known[cell.branch, one.name]) for cell, one in published))
    cache = cache_of(plan.spec)
    served = {"url": nix.string(cache.url), "publicKeys": nix.words(cache.keys)} if cache else {}
    branches = {cell.branch: _folder(cell.branch, fetched.get(cell.branch)) for cell, _ in published}
    further = _further(plan)
    variants = [
        _row(_variant(plan.spec, cell, one, further) | {"proof": str(said.index(str(known[cell.branch, one.name])))})
        for cell, one in published
    ]
    return nix.attributes({
        "cache": nix.attributes(served) if served else "null",
        "axes": nix.words((*_AXES, *further)),
        **({"serves": _serves(plan.spec)} if further else {}),
        "branches": nix.attributes(branches),
        "proofs": nix.attributes({str(at): nix.string(text) for at, text in enumerate(said)}),
        "variants": nix.block("[", variants, "]"),
    }) + "\n"  # fmt: skip


def _folder(branch: str, fetched: Fetched | None) -> str:
    """The folder of a branch's recipes, as a Nix expression."""
    if fetched is None:
        return f"./. + {nix.string(f'/recipes/{branch}')}"
    where = {"url": fetched.url, "ref": f"refs/heads/{branch}", "rev": fetched.commit}
    tree = nix.attributes({key: nix.string(value) for key, value in where.items()})
    return f"builtins.fetchGit {tree} + {nix.string(f'/{RECIPES}')}"


def _further(plan: Plan) -> tuple[str, ...]:
    """The axes beside Python, toolkit, GPU and ISA. Raises InputError if the overlay uses the name of one."""
    if all(cell.is_usual or cell.listed for cell, _ in _published(plan)):
        return ()
    declared = [name for name in plan.spec.axes if name not in {*AXES, *PARTS}]
    if taken := next((name for name in declared if name in _TAKEN), ""):
        message = f"the overlay uses {taken} for something else; give the axis another name"
        raise InputError([plan.spec.finding(("axes", taken), Code.DUPLICATE_NAME, message, key=True)])
    return ("family", *declared)


def _serves(spec: Spec) -> str:
    """The values that stand for others, by axis."""
    rows = {
        axis: nix.attributes({value: nix.words(others) for value, others in row.serves.items()})
        for axis, row in spec.axes.items()
        if row.serves
    }
    return nix.attributes(rows) if rows else "{ }"


def _axes(cell: Cell, further: Sequence[str]) -> dict[str, str]:
    """The value of `cell` on each axis of the overlay; '' where it has none."""
    found = {axis: str(getattr(cell, field)) for axis, field in _AXES.items()}
    if not cell.listed:
        own = cell.axes
        found |= {axis: own.get(axis, "") for axis in ("python", "isa")}
        found |= {"gpu": cell.target if "family" in own else ""}
    return found | {axis: cell.axes.get(axis, "") for axis in further}


def _variant(spec: Spec, cell: Cell, variant: Variant, further: Sequence[str]) -> dict[str, str]:
    family = family_of(cell.family)
    has_one = family.is_target(cell.target) and "," not in cell.target
    return {
        "name": variant.name,
        "attribute": spec.packages[variant.package].attribute,
        "version": spec.branches[cell.branch].versions.get(variant.package, ""),
        **_axes(cell, further),
        # Of another family, PyTorch states the toolkit in a way of its own, which the check does not know.
        "device": family.device if family.device == family.name else "",
        "code": family.in_pytorch(cell.target) if has_one else "",
        "recalled": recalled(spec, cell.branch, variant),
    }


def _row(values: Mapping[str, str]) -> str:
    return f"{{ {' '.join(f'{key} = {nix.string(value)};' for key, value in values.items())} }}"


# The words of the other files.


def _words(plan: Plan) -> dict[str, str]:
    spec, published = plan.spec, list(_published(plan))
    cell, variant = next(((cell, one) for cell, one in published if cell.target != CPU), published[0])
    titles = listed(package.title for package in in_build_order(spec.packages) if package.repository is None)
    further = _further(plan)
    pin = spec.branches[cell.branch].pin(cell.toolkit).nixpkgs
    cache = cache_of(spec)
    settings = {
        "extra-substituters": nix.words([cache.url, *_others(cache)]),
        "extra-trusted-public-keys": nix.words(cache.keys),
    } if cache else {}  # fmt: skip
    return {
        "heading": _heading(spec),
        "description": f"{titles} of {spec.owner}",
        "nix-description": nix.string(f"{titles} of {spec.owner}"),
        "nixpkgs": nix.string(f"github:NixOS/nixpkgs/{pin}" if pin else "nixpkgs"),
        "settings": f"\n\n# Nix asks whether it may use these.\nnixConfig = {nix.attributes(settings)};"
        if cache
        else "",
        "name": variant.name,
        "attribute": spec.packages[variant.package].attribute,
        "gpu": cell.target,
        "isa": _axes(cell, further)["isa"],
        "arguments": "".join(f", {axis} ? null" for axis in further),
        "further": "".join(f" {axis}" for axis in further),
        "options": "".join(f'\n{axis} = narrowing "The value on the axis {axis}; null for any.";' for axis in further),
        "cached": f"nix run .#cached-{variant.name} # does the cache have it?\n" if cache else "",
        "notes": "\n".join(f"\n{_wrapped(note)}" for note in _notes(spec, cache, fetched=bool(fetched_branches(plan)))),
    }


def _notes(spec: Spec, cache: Cache | None, *, fetched: bool) -> Iterator[str]:
    """The paragraphs of README.md that depend on the spec."""
    if not all(pin.hash for pin in named_commits(spec)):
        yield (
            "Some recipes name their nixpkgs without its hash. Flakes then need `--impure`. In the fleet's repository, "
            "`ci-compile hash` adds the hashes."
        )
    if fetched:
        yield (
            "Recipes that take the system from the machine, or fetch without a hash, need `--impure` in flakes as well."
        )
    yield "## The binary cache"
    if cache is None:
        yield "There is none: Nix builds what you use, which takes hours."
        return
    yield (
        f"The cache is `{cache.url}`, and its paths are signed with `{'` or `'.join(cache.keys)}`. The flake names "
        "them, and Nix asks before it uses them. The NixOS module sets them. Otherwise, add them to `substituters` and "
        "`trusted-public-keys` in nix.conf."
    )
    if cache.push is CachePush.OWN:
        yield (
            f"It holds the fleet's own part of each closure. The rest comes from {listed(cache.others)}, whose keys "
            f"your Nix must trust, and from {family_of(DEFAULT).vendor}'s downloads."
        )


def _wrapped(text: str) -> str:
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False)


def _others(cache: Cache) -> Iterable[str]:
    """The further caches that a user needs. Nix knows that of NixOS."""
    return [url for url in cache.others if url != NIXOS_CACHE] if cache.push is CachePush.OWN else []


def _heading(spec: Spec) -> str:
    return f"{MARK} from {spec.document.file}. Do not edit: change the spec, then run `ci-compile overlay`."
