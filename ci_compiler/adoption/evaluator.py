"""Evaluates recipes with the real Nix and a stand-in for nixpkgs.

`nix-instantiate` reads a recipe as it is. In place of nixpkgs, the recipe gets `standin/`, whose derivations record how
they were requested. Nothing is fetched, nothing outside the recipes' folder is read, and nothing is written. One
process evaluates all recipes, one after the other, and announces each. If Nix stops at an error that cannot be caught,
or hangs, the recipe announced last is the cause: it becomes a finding, and a new process continues with the next one.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ci_compiler.adoption import known_pins
from ci_compiler.adoption import nix_instantiate as nix
from ci_compiler.adoption.evaluation import (
    EvaluatedSource,
    Evaluation,
    Fetch,
    Folders,
    Overlaid,
    Patch,
    read,
    sources_of,
)
from ci_compiler.adoption.nix_instantiate import Ending, parse
from ci_compiler.codes import Code
from ci_compiler.errors import Finding, InputError, Place, about, wrong
from ci_compiler.outside import text_of as read_text
from ci_compiler.recipes.identifiers import Mentions, mentions
from ci_compiler.units import grouped
from ci_compiler.variant import RECIPES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = [
    "EvaluatedSource", "Evaluation", "Fetch", "Overlaid", "Patch", "evaluate", "find_recipes", "name_of", "parse",
]  # fmt: skip

_STANDIN = Path(__file__).resolve().parent / "standin"
_TAG = "ci-compiler-event"
PATIENCE, GIVEN_UP = 30.0, 4
"""The seconds after which a recipe is taken for endless (one takes hundredths), and the most such recipes."""
_KEPT_LINES = 2000  # of the start of an error message, and of its end
_OF_REPOSITORIES = (".git", "flake.nix")
_UNSEEN_FOLDERS = frozenset({".git", "node_modules", "__pycache__"})


_EVALUATING = " (evaluating "


def parts_of_message(message: str) -> tuple[str, str]:
    """What a message says, and the recipe that it names; '' if the fault is in the recipe itself."""
    said, _, named = message.partition(_EVALUATING)
    return said, named.removesuffix(")")


def find_recipes(root: Path) -> tuple[Path, ...]:
    """The recipes of a repository (`.flox/pkgs/`) or of a folder of recipes, by Flox's rule, sorted by path.

    `NAME.nix` and `NAME/default.nix` are recipes; files in `lib/` are shared by recipes. A git repository is not
    needed. Raises InputError if the folder does not exist or has no recipe, or is a repository without `.flox/pkgs`.
    """
    if not root.is_dir():
        raise _missing(root, "is a file, and no folder of recipes" if root.exists() else "the folder does not exist")
    if recipe_folder(root) == root and any((root / name).exists() for name in _OF_REPOSITORIES):
        raise _missing(root, f"is a repository without recipes in {RECIPES}; its other Nix files are no packages")
    recipes = _listed(root)
    if not recipes:
        raise _missing(recipe_folder(root), "there are no recipes here, neither NAME.nix nor NAME/default.nix")
    return recipes


def name_of(recipe: Path) -> str:
    """The name that Flox gives to the package of a recipe (`NAME.nix`, `NAME/default.nix`)."""
    return recipe.parent.name if recipe.name == "default.nix" else recipe.name.removesuffix(".nix")


def recipe_folder(root: Path) -> Path:
    """The folder of a repository's recipes; `root` itself if it is a folder of recipes."""
    pkgs = root / RECIPES
    return pkgs if pkgs.is_dir() else root


def _listed(root: Path) -> tuple[Path, ...]:
    folder = recipe_folder(root)
    nested = (path for path in folder.glob("*/default.nix") if path.parent.name != "lib" and path.parent.name[0] != ".")
    return tuple(sorted(path for path in (*folder.glob("*.nix"), *nested) if path.is_file()))


@contextmanager
def written(files: Mapping[str, str]) -> Iterator[Path]:
    """A folder with `files`, texts by path, for as long as they are evaluated."""
    with tempfile.TemporaryDirectory(prefix="ci-compile-") as folder:
        for path, text in files.items():
            (Path(folder) / path).parent.mkdir(parents=True, exist_ok=True)
            (Path(folder) / path).write_text(text, "utf-8")
        yield Path(folder)


def evaluate(
    root: Path,
    recipes: Sequence[Path],
    *,
    timeout: float | None = None,
    tarballs: Mapping[str, Path] | None = None,
    groups: Mapping[Path, str] | None = None,
) -> tuple[tuple[Evaluation, ...], tuple[Finding, ...]]:
    """Evaluates recipes: the evaluations, and a finding for each that fails. Both are in the order of `recipes`.

    root: the folder that the recipes may read.
    recipes: Nix files in it. A function gets its arguments as from `callPackage`.
    timeout: seconds for all recipes together. A recipe that takes a quarter of that is given up (`recipe-timeout`),
        the next slow one sooner. A recipe for which no time is left is a finding, too. None counts recipes, so that
        a busy machine finds the same: each has `PATIENCE`; after `GIVEN_UP` endless ones, the rest is a finding.
    tarballs: folders to use for other repositories' archives, by the start of the archive's address. The recipes may
        read them.
    groups: the group of each recipe. If a recipe fails outside its own file, such as in a shared builder, or hangs, the
        rest of its group gets the same finding without being evaluated.

    Findings are `recipe-evaluation`, with Nix's own message and place, and `recipe-timeout`. Raises InputError if Nix
    or the folder is missing.
    """
    outcomes = outcomes_of(root, recipes, timeout=timeout, tarballs=tarballs, groups=groups)
    values = [outcomes[path] for path in dict.fromkeys(recipes)]
    evaluations = tuple(outcome for outcome in values if isinstance(outcome, Evaluation))
    return evaluations, tuple(outcome for outcome in values if isinstance(outcome, Finding))


def outcomes_of(
    root: Path,
    recipes: Sequence[Path],
    *,
    timeout: float | None = None,
    tarballs: Mapping[str, Path] | None = None,
    groups: Mapping[Path, str] | None = None,
) -> dict[Path, Evaluation | Finding]:
    """The evaluation of each recipe, or what is wrong with it; the arguments are those of `evaluate`."""
    if not root.is_dir():
        raise _missing(root, "the folder does not exist")
    with tempfile.TemporaryDirectory(prefix="ci-compiler-") as scratch:
        return _Evaluator(root, Path(scratch).resolve(), timeout, tarballs or {}, groups or {}).run(recipes)


@dataclass(kw_only=True)
class _Watch:
    """The progress of a process: the current recipe and its events so far, and the recipes that are done."""

    recipe: int | None = None
    events: list[dict[str, Any]] = field(default_factory=list)
    head: list[str] = field(default_factory=list)
    tail: deque[str] = field(default_factory=lambda: deque(maxlen=_KEPT_LINES))
    done: dict[int, tuple[dict[str, Any], list[dict[str, Any]]]] = field(default_factory=dict)

    def line(self, line: str) -> bool:
        """Takes a line of standard error. Returns whether it begins or ends a recipe."""
        event = nix.event(line, _TAG)
        if event is None:
            (self.head if len(self.head) < _KEPT_LINES else self.tail).append(line)
            return False
        if event["event"] == "begin":
            self.recipe, self.events = event["recipe"], []
            self.head.clear()
            self.tail.clear()
        elif event["event"] == "end":
            self.done[event["recipe"]] = (event["value"], self.events)
        else:
            self.events.append(event)
            return False
        return True

    @property
    def message(self) -> str:
        """What Nix printed about the current recipe."""
        return "\n".join([*self.head, *self.tail])


class _Evaluator:
    """One call of `evaluate`: the recipes by number, what they mention, and the remaining time."""

    def __init__(
        self, root: Path, scratch: Path, timeout: float | None, tarballs: Mapping[str, Path], groups: Mapping[Path, str]
    ) -> None:
        self.root, self.scratch, self.groups = root.resolve(), scratch, groups
        self.archives = {prefix: folder.resolve() for prefix, folder in tarballs.items()}
        self.folders = Folders(named={self.root: root} | {path.resolve(): path for path in tarballs.values()})
        self.timeout, self.deadline = timeout, time.monotonic() + (86_400 if timeout is None else timeout)
        self.patience = PATIENCE if timeout is None else timeout / 4
        self.mentions = {path: mentions(text_of(path)) for path in _nix_files(self.folders.named)}
        together = Mentions.together(self.mentions.values())
        self.names, self.members = sorted(together.names), sorted(together.members)
        self.known = scratch / "known.nix"
        self.known.write_text(known_pins.known(), "utf-8")
        self.recipes: dict[int, Path] = {}
        self.siblings: dict[str, str] = {}

    def run(self, recipes: Sequence[Path]) -> dict[Path, Evaluation | Finding]:
        """The outcome of each recipe."""
        outcomes: dict[Path, Evaluation | Finding] = {}
        for number, path in enumerate(dict.fromkeys(recipes)):
            if path.resolve().is_relative_to(self.root):
                self.recipes[number] = path
            else:
                message = f"it is outside the folder {self.folders.named[self.root]}"
                outcomes[path] = about(path, Code.RECIPE_EVALUATION, message)
        self.siblings = {name_of(path): str(path.resolve()) for path in (*_listed(self.root), *self.recipes.values())}
        results, rest = self._until_wrong(list(self.recipes))
        if rest:
            # Many recipes may be wrong: continue with two processes.
            halves = [rest[: (len(rest) + 1) // 2], rest[(len(rest) + 1) // 2 :]]
            with ThreadPoolExecutor(len(halves)) as pool:
                for more in pool.map(self._to_the_end, halves):
                    results |= more
        return outcomes | {self.recipes[number]: outcome for number, outcome in results.items()}

    def _to_the_end(self, numbers: list[int]) -> dict[int, Evaluation | Finding]:
        results: dict[int, Evaluation | Finding] = {}
        while numbers:
            more, numbers = self._until_wrong(numbers)
            results |= more
            findings = {outcome for outcome in results.values() if isinstance(outcome, Finding)}
            slow = sum(finding.code is Code.RECIPE_TIMEOUT for finding in findings)
            if self.timeout is None and slow >= GIVEN_UP:
                message = f"it was not evaluated: {slow} recipes before it did not end within {PATIENCE:g} s each"
                return results | {
                    number: about(self.recipes[number], Code.RECIPE_TIMEOUT, message) for number in numbers
                }
        return results

    def _until_wrong(self, numbers: list[int]) -> tuple[dict[int, Evaluation | Finding], list[int]]:
        """Evaluates in one process up to the first wrong recipe. Returns the outcomes and the remaining recipes."""
        if not numbers:
            return {}, []
        watch = _Watch()
        with tempfile.NamedTemporaryFile("w", dir=self.scratch, suffix=".json", encoding="utf-8") as batch:
            json.dump(self._batch(numbers), batch)
            batch.flush()
            argv = nix.command(
                "--eval", "--show-trace", str(_STANDIN / "main.nix"), "--argstr", "batch", batch.name,
                readable=[*self.folders.named, _STANDIN, *known_pins.readable(), self.scratch],
            )  # fmt: skip
            env = nix.environment(self.scratch)
            ending = nix.stream(argv, env=env, on_line=watch.line, patience=self.patience, deadline=self.deadline)
        results: dict[int, Evaluation | Finding] = {
            number: self._evaluation(self.recipes[number], *done) for number, done in watch.done.items()
        }
        rest = [number for number in numbers if number not in results]
        if not rest:
            return results, []
        if ending is Ending.LATE:
            return results | {number: self._late(number, watch.recipe) for number in rest}, []
        if watch.recipe is None:
            raise wrong(nix.PROGRAM, Code.NIX_FAILED, nix.failure(watch.message, []).message)
        # A recipe that is done is not the cause, whatever ended the process.
        culprit = rest[0] if watch.recipe in results else watch.recipe
        finding = self._finding(self.recipes[culprit], watch.message, ending)
        results |= dict.fromkeys([culprit, *self._alike(culprit, rest, finding)], finding)
        return results, [number for number in rest if number not in results]

    def _alike(self, culprit: int, rest: list[int], finding: Finding) -> list[int]:
        """Those of `rest` that fail as `culprit` does, by their group."""
        path = self.recipes[culprit]
        if path not in self.groups or (finding.place.file == str(path) and finding.code is not Code.RECIPE_TIMEOUT):
            return []
        return [number for number in rest if self.groups.get(self.recipes[number]) == self.groups[path]]

    def _batch(self, numbers: list[int]) -> dict[str, Any]:
        """The input of main.nix."""
        return {
            "tag": _TAG,
            "recipes": [{"number": number, "path": str(self.recipes[number].resolve())} for number in numbers],
            "siblings": self.siblings,
            "names": self.names,
            "members": self.members,
            "tarballs": {prefix: str(folder) for prefix, folder in self.archives.items()},
            "known": str(self.known),
        }

    def _finding(self, recipe: Path, errors: str, ending: Ending) -> Finding:
        """The finding for the recipe at which a process ended, from what Nix printed."""
        if ending is Ending.STALLED:
            limit = self.patience
            self.patience = limit if self.timeout is None else max(1.0, limit / 2)
            message = f"its evaluation did not end within {limit:g} s; it may be endless"
            return about(recipe, Code.RECIPE_TIMEOUT, message)
        problem = nix.failure(errors, list(self.folders.named))
        file = self.folders.name(problem.file) if problem.file else None
        if file is None:
            return about(recipe, Code.RECIPE_EVALUATION, problem.message)
        elsewhere = "" if problem.file == recipe.resolve() else f"{_EVALUATING}{recipe})"
        place = Place(file=str(file if elsewhere else recipe), line=problem.line, column=problem.column)
        return about(place, Code.RECIPE_EVALUATION, problem.message + elsewhere)

    def _late(self, number: int, at_work: int | None) -> Finding:
        state = "was not finished" if number == at_work else "was not started"
        message = f"it {state} when the {self.timeout:g} s for {len(self.recipes)} recipes were over"
        return about(self.recipes[number], Code.RECIPE_TIMEOUT, message)

    def _evaluation(self, recipe: Path, data: Mapping[str, Any], events: list[dict[str, Any]]) -> Evaluation:
        """A recipe's evaluation, with what it imported and fetched."""
        events_of = grouped(events, itemgetter("event"))
        imported = list(dict.fromkeys(_imported(event["path"]) for event in events_of.get("import", ())))
        local = [path for path in imported if path.is_relative_to(self.root)]
        fetched = (
            Fetch(url=event["url"], hash=event["hash"] or "", revision=event["revision"] or "")
            for event in events_of.get("fetch", ())
        )
        return replace(
            read(data, path=recipe, folders=self.folders),
            pins=tuple(dict.fromkeys(event["pin"] for event in events_of.get("nixpkgs", ()))),
            imports=self._named(path for path in local if path != recipe.resolve()),
            reads=self._named(self._read(local, events_of.get("read", ()))),
            fetched=tuple(dict.fromkeys(fetched)),
            used=sources_of(events_of.get("source", ()), self.folders),
        )

    def _named(self, files: Iterator[Path]) -> tuple[Path, ...]:
        return tuple(sorted(filter(None, (self.folders.name(path) for path in set(files)))))

    def _read(self, imported: list[Path], events: Sequence[dict[str, Any]]) -> Iterator[Path]:
        """The files that a recipe and its imports name or read, without those that are imported."""
        yield from (Path(event["path"]) for event in events)
        for file in imported:
            for literal in self.mentions[file].paths if file in self.mentions else ():
                path = Path(os.path.normpath(file.parent / literal))
                known = path in imported or path / "default.nix" in imported
                if literal.startswith(".") and not known and path.is_relative_to(self.root) and path.exists():
                    yield path


def _missing(folder: Path, message: str) -> InputError:
    return wrong(folder, Code.RECIPES_MISSING, message)


def _imported(path: str) -> Path:
    """The file that Nix reads for an import."""
    file = Path(os.path.normpath(path))
    return file / "default.nix" if file.is_dir() else file


def text_of(path: Path) -> str:
    """A file's text; '' if it cannot be read, which Nix reports."""
    try:
        return read_text(path, errors="replace")
    except OSError:
        return ""


def _nix_files(folders: Mapping[Path, Path]) -> Iterator[Path]:
    """The Nix files of folders, each once. Links to folders are not followed."""
    for folder in folders:
        for parent, below, files in os.walk(folder):
            below[:] = sorted(set(below) - _UNSEEN_FOLDERS)
            for name in sorted(files):
                path = Path(parent, name)
                if name.endswith(".nix") and path.is_file():
                    yield path
