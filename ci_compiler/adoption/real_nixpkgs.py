"""Evaluates recipes with the true nixpkgs: that of each recipe's pin, or a folder that takes its place.

Nothing is built, and import from derivation is refused. Memory and time are limited. With a folder, the evaluation
needs no store and no network. Where `nix-eval-jobs` is installed, it evaluates what the network provides; else each
`nix-instantiate` evaluates some recipes, which read nixpkgs' files once, and there are as many at once as the machine
has cores and memory for. What a process has evaluated is in the cache when it ends.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ci_compiler.adoption import nix_instantiate as nix
from ci_compiler.adoption.evaluation_cache import EvaluationCache
from ci_compiler.adoption.evaluator import recipe_folder
from ci_compiler.adoption.nix_instantiate import Ending
from ci_compiler.backends.nix_environment import evaluation
from ci_compiler.backends.nix_store import INSTALL, PROFILE, NixStore
from ci_compiler.codes import Code
from ci_compiler.errors import Finding, Place, StageError, about
from ci_compiler.outside import object_of
from ci_compiler.process import Ended, ask, find_program, located
from ci_compiler.recipes.compiled import ARCHIVE, NIXPKGS
from ci_compiler.spec.packages import Pin

REAL = "real"
"""The value of `--nixpkgs` for the nixpkgs that recipes are pinned to."""

SECONDS = 1200.0
"""The time for all recipes of one call, well within the 30 minutes of the job of a pull request."""

MEMORY = 4 * 1024**3
"""The address space of one process, in bytes. torch for GPUs takes less than half of it."""

TOGETHER = 8
"""The recipes of one process. Where its memory does not hold them, what is left has another one."""

_EXPRESSION = Path(__file__).resolve().parent / "real/evaluate.nix"
_TAG = "ci-compiler-real"
_JOBS = "nix-eval-jobs"
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True, slots=True, kw_only=True)
class Derivation:
    """What a recipe evaluates to. `attributes` are those that `judged` reads, as the build's environment has them."""

    path: str  # the derivation's store path
    system: str
    outputs: Mapping[str, str]  # the store path of each output, by name
    attributes: Mapping[str, str]

    @property
    def version(self) -> str:
        """The version that the derivation states; '' if it states none."""
        return self.attributes.get("version", "")


Outcome = Derivation | Finding | None
"""What a recipe evaluates to, or what is wrong with it. None: the time was over."""


@dataclass(frozen=True, slots=True)
class Evaluated:
    """The outcomes of recipes by name: derivations, a finding for each that fails, names that no time was left for."""

    outcomes: Mapping[str, Outcome]

    @property
    def derivations(self) -> dict[str, Derivation]:
        """What the recipes evaluate to."""
        return {name: outcome for name, outcome in self.outcomes.items() if isinstance(outcome, Derivation)}

    @property
    def findings(self) -> dict[str, Finding]:
        """What is wrong with the others."""
        return {name: outcome for name, outcome in self.outcomes.items() if isinstance(outcome, Finding)}

    @property
    def late(self) -> tuple[str, ...]:
        """The recipes that were not evaluated in time."""
        return tuple(name for name, outcome in self.outcomes.items() if outcome is None)


@dataclass(frozen=True, slots=True, kw_only=True)
class NixpkgsSource:
    """The nixpkgs to evaluate with: `folder`, or else what each recipe fetches.

    A recipe with arguments is called with `folder`, or else with `pin`, for `system`.
    """

    folder: Path | None
    pin: Pin
    system: str


def evaluate(
    root: Path,
    recipes: Mapping[str, Path],
    source: NixpkgsSource,
    *,
    siblings: Mapping[str, Path] | None = None,
    seconds: float = SECONDS,
    cache: EvaluationCache | None = None,
    on_outcomes: Callable[[int], None] = lambda _: None,
) -> Evaluated:
    """Evaluates `recipes`, Nix files under `root` by name; `siblings` are all recipes that they may ask for by name.

    A recipe that takes a quarter of `seconds` is given up. `on_outcomes` is called with the number of recipes that
    have just been judged. Findings are `recipe-evaluation`, with Nix's own words. Raises InputError if Nix is missing.
    """
    keys = {name: cache.key(root, path, source.folder) if cache else "" for name, path in recipes.items()}
    known = {name: Derivation(**value) for name, key in keys.items() if cache and key and (value := cache.get(key))}
    on_outcomes(len(known))

    def keep(outcomes: Mapping[str, Outcome]) -> None:
        if cache:
            cache.put(
                {
                    keys[name]: asdict(derivation)
                    for name, derivation in Evaluated(outcomes).derivations.items()
                    if keys[name]
                }
            )
        on_outcomes(len(outcomes))

    with tempfile.TemporaryDirectory(prefix="ci-compiler-") as scratch:
        task = _Task(
            root=root,
            recipes={name: path for name, path in recipes.items() if name not in known},
            siblings={**(siblings or {}), **recipes},
            source=source,
            scratch=Path(scratch).resolve(),
            deadline=time.monotonic() + seconds,
            patience=seconds / 4,
            keep=keep,
        )
        jobs = located(_JOBS) if source.folder is None and task.recipes else None
        outcomes = task.by_jobs(jobs) if jobs else task.in_parts()
    return Evaluated({**dict.fromkeys(recipes), **known, **outcomes})


def patch(
    root: Path,
    name: str,
    siblings: Mapping[str, Path],
    source: NixpkgsSource,
    *,
    inside: str = "",
    seconds: float = SECONDS,
) -> Ended:
    """Unpacks and patches the source of the recipe `name`, one of `siblings`, and does nothing else of its build.

    With `inside`, it is the source of the package of this name that the recipe is built with. Whatever that takes is
    fetched or built first: compilers as a rule, but none of the libraries. Raises InputError if Nix is missing.
    """
    program = find_program("nix-build", install=INSTALL, folders=(PROFILE,))
    with tempfile.TemporaryDirectory(prefix="ci-compiler-") as scratch, evaluation() as env:
        task = _Task(root=root, recipes={}, siblings=siblings, source=source, scratch=Path(scratch).resolve())
        which = f'inside."{inside}"' if inside else "own"
        batch = task.batch({name: {inside: None} if inside else {}})
        wanted = ("-A", f'patched."{name}".{which}', "--argstr", "batch", str(batch))
        folder = () if source.folder is None else ("-I", f"nixpkgs={source.folder}")
        return ask([program, "--no-out-link", *folder, str(_EXPRESSION), *wanted], seconds=seconds, env=env)


@dataclass(kw_only=True)
class _Progress:
    """What a process has evaluated, and what it printed about the recipe that it is at work on."""

    done: dict[str, Derivation] = field(default_factory=dict)
    at_work: str = ""
    messages: list[str] = field(default_factory=list)

    def line(self, line: str) -> bool:
        """Takes a line of standard error. Returns whether it begins or ends a recipe."""
        event = nix.event(line, _TAG)
        if event is None:
            self.messages.append(line)
            return False
        if event["value"] is None:
            self.at_work = event["name"]
            self.messages.clear()
        else:
            self.done[event["name"]] = Derivation(**event["value"])
        return True


@dataclass(frozen=True, kw_only=True)
class _Task:
    """One call of `evaluate`, without what the cache has."""

    root: Path
    recipes: Mapping[str, Path]
    siblings: Mapping[str, Path]
    source: NixpkgsSource
    scratch: Path
    deadline: float = 0
    patience: float = 0
    keep: Callable[[Mapping[str, Outcome]], None] = lambda _: None

    def in_parts(self) -> dict[str, Outcome]:
        """Evaluates `TOGETHER` recipes in each process."""
        if self.source.folder is None and self.recipes:
            # Two processes that create the same store at once would both fail.
            ask([nix.program(), "--eval", "--expr", "1"], seconds=SECONDS)
        names, workers = list(self.recipes), _workers()
        size = max(1, min(TOGETHER, -(-len(names) // workers)))
        parts = [names[start : start + size] for start in range(0, len(names), size)]
        with ThreadPoolExecutor(workers) as pool:
            return {name: outcome for part in pool.map(self._part, parts) for name, outcome in part.items()}

    def by_jobs(self, program: str) -> dict[str, Outcome]:
        """Evaluates the recipes by nix-eval-jobs, which prints a line of JSON for each."""
        file = self.scratch / "jobs.nix"
        file.write_text(f"(import {_EXPRESSION} {{ batch = {json.dumps(str(self.batch([*self.recipes])))}; }}).jobs\n")
        limits = ["--workers", str(_workers()), "--max-memory-size", str(MEMORY // 1024**2)]
        command = [program, *limits, "--option", "allow-import-from-derivation", "false", str(file)]
        left = self.deadline - time.monotonic()
        with evaluation() as env:
            ended = ask(command, seconds=left, env=env)
        rows = [row for line in ended.out.splitlines() if (row := _row(line))]
        store = NixStore(seconds=left)
        outcomes = {row["attr"]: self._of_job(store, row) for row in rows if row["attr"] in self.recipes}
        if not outcomes and time.monotonic() < self.deadline:  # it failed as a whole
            outcomes = dict.fromkeys(self.recipes, self._finding(next(iter(self.recipes)), ended.err))
        self.keep(outcomes)
        return outcomes

    def _of_job(self, store: NixStore, row: Mapping[str, Any]) -> Outcome:
        if "error" in row:
            return self._finding(row["attr"], _COLOUR.sub("", row["error"]))
        try:
            attributes = store.attributes(row["drvPath"])
        except StageError as error:
            return error.findings[0]
        return Derivation(
            path=row["drvPath"], system=row["system"], outputs=row.get("outputs", {}), attributes=attributes
        )

    def _part(self, names: Sequence[str]) -> dict[str, Outcome]:
        """Evaluates `names`. What fails after others is tried again in a new process, whose memory is empty."""
        outcomes: dict[str, Outcome] = {}
        while (rest := [name for name in names if name not in outcomes]) and time.monotonic() < self.deadline:
            progress, ending = self._process(rest)
            judged: dict[str, Outcome] = {**progress.done}
            at_work = progress.at_work or rest[0]
            if at_work not in judged and ending is Ending.STALLED:
                judged[at_work] = None
            elif not judged and ending is not Ending.LATE:
                judged[at_work] = self._finding(at_work, "\n".join(progress.messages))
            self.keep(judged)
            outcomes |= judged
            if ending is Ending.LATE:
                break
        return dict.fromkeys(names) | outcomes

    def _process(self, names: Sequence[str]) -> tuple[_Progress, Ending]:
        """Evaluates `names` in one process, up to the first that is wrong."""
        progress = _Progress()
        arguments = ("--eval", "--strict", "--show-trace", str(_EXPRESSION), "-A", "described", "--argstr", "batch")
        offline = nix.environment(self.scratch)
        with evaluation() as online:
            ending = nix.stream(
                self._command(*arguments, str(self.batch(names))),
                env=online if self.source.folder is None else offline,
                on_line=progress.line,
                patience=self.patience,
                deadline=self.deadline,
                memory=MEMORY,
            )
        return progress, ending

    def _command(self, *arguments: str) -> list[str]:
        """Offline and without a store if a folder is given, else with the machine's store and settings."""
        folder = self.source.folder
        if folder is None:
            return [nix.program(), "--option", "allow-import-from-derivation", "false", *arguments]
        readable = (self.root.resolve(), folder, _EXPRESSION.parent, self.scratch)
        return nix.command("-I", f"nixpkgs={folder}", *arguments, readable=readable)

    def batch(self, names: Iterable[str] | Mapping[str, Mapping[str, None]]) -> Path:
        """The file that tells evaluate.nix what to evaluate, or which packages inside each recipe to patch."""
        pin, folder = self.source.pin, self.source.folder
        archive = {"url": ARCHIVE.format(repository=NIXPKGS, rev=pin.nixpkgs)}
        batch = {
            "tag": _TAG,
            "wanted": names if isinstance(names, Mapping) else {name: {} for name in names},
            "recipes": {name: str(path.resolve()) for name, path in self.siblings.items()},
            "nixpkgs": str(folder or ""),
            "pin": archive | ({"sha256": pin.nixpkgs_hash} if pin.nixpkgs_hash else {}),
            "system": self.source.system,
        }
        with tempfile.NamedTemporaryFile("w", dir=self.scratch, suffix=".json", delete=False, encoding="utf-8") as file:
            json.dump(batch, file)
        return Path(file.name)

    def _finding(self, name: str, said: str) -> Finding:
        """What Nix says of a recipe, at the nearest place in the recipes' folder."""
        path, folder = self.recipes[name], recipe_folder(self.root).resolve()
        problem = nix.failure(said, [folder])
        position = (problem.line, problem.column) if problem.file == path.resolve() else ()
        return about(Place(str(path), *position), Code.RECIPE_EVALUATION, problem.message)


def _row(line: str) -> dict[str, Any]:
    """The object in a line of JSON; {} for any other line, such as one that the time limit cut off."""
    try:
        row = object_of(line)
    except OSError:
        return {}
    return row if "attr" in row else {}


def _workers() -> int:
    """How many evaluations the machine has cores and memory for."""
    if sys.platform == "win32":
        return 1
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError):  # the system does not say
        return 1
    return max(1, min(os.cpu_count() or 1, memory // MEMORY))
