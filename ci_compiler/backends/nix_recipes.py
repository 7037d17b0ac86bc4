"""Recipes in a job: what the backends have in common that build the Nix recipes of the checkout.

A build is a derivation. What Nix says of the recipe's derivation, such as what remains to be built for it, holds for
every such backend.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ci_compiler.backends.forms import path_name
from ci_compiler.backends.job import (
    BuildOrder,
    BuildRecord,
    BuildResult,
    Interpreter,
    JobContext,
    JoinedVariant,
    NeededVariant,
    check_built,
    show,
)
from ci_compiler.backends.nix_python import interpreter_of
from ci_compiler.backends.nix_seeds import share_seeds, take_seeds
from ci_compiler.backends.nix_store import PROFILE, reachable
from ci_compiler.backends.own_store import store_of
from ci_compiler.backends.protocol import BinaryCache, Tool
from ci_compiler.backends.staged import fetch_staged, point, stage, staged_name, staging, take
from ci_compiler.backends.tested import attest, attested
from ci_compiler.codes import Code
from ci_compiler.errors import StageError, failure, wrong
from ci_compiler.process import Ended, find_program, follow
from ci_compiler.secret import Secret
from ci_compiler.variant import recipe_path

LINK = "result-{name}"
"""The link that a build leaves in the repository's root."""

_EVALUATIONS = 4
"""How many recipes are evaluated at once; each takes up to two gigabytes."""

_RECORD = "ci-runner-record"
"""The name of a record in the store."""


class RecipePrograms(ABC):
    """The programs of a backend that builds recipes, in a job. `builder` is the one that builds."""

    builder: Tool

    def __init__(self, job: JobContext) -> None:
        self.job = job
        self.store = store_of(job.cache, seconds=job.seconds)
        self._derivations: dict[str, str] = {}

    @abstractmethod
    def _realise(self, program: str, order: BuildOrder) -> Ended:
        """Runs `program` on the recipe. It leaves the link `result-NAME` to the output."""

    def _program(self) -> str:
        return find_program(self.builder.name, install=self.builder.install, folders=(PROFILE,))

    def _follow(self, command: Sequence[str], **more: Any) -> Ended:
        """Runs `command` in the checkout and prints its output. `more` are further arguments of `follow`."""
        return follow(command, show, seconds=self.job.seconds, folder=self.job.root, **more)

    def evaluate(self, recipe: str) -> Mapping[str, str]:
        """The attributes of the recipe's derivation."""
        return self.store.attributes(self._derivation(recipe))

    def outputs(self, recipes: Collection[str]) -> Mapping[str, tuple[str, ...]]:
        """The outputs of the derivations of `recipes`."""
        with ThreadPoolExecutor(_EVALUATIONS) as pool:
            made = zip(recipes, pool.map(self._derivation_if_any, recipes), strict=True)
        return {recipe: self.store.outputs(derivation) for recipe, derivation in made if derivation}

    def _derivation_if_any(self, recipe: str) -> str:
        """What a recipe evaluates to; '' for one that is missing or does not evaluate, which is printed."""
        try:
            return self._derivation(recipe) if self._file(recipe).is_file() else ""
        except StageError as error:
            if error.findings[0].code is not Code.RECIPE_EVALUATION:
                raise
            show(f"{recipe} does not evaluate, so that nothing contains it: {error.findings[0].message}")
            return ""

    def build(self, order: BuildOrder) -> BuildResult:
        """Builds a recipe, and copies the closure to the cache."""
        program = self._program()
        if self.job.cache is not None:
            self.store.check_push(self.job.cache)
        derivation = self._derivation(order.recipe)
        self._refuse_undeclared(order, derivation)
        planned = self.store.to_build(derivation)
        if derivation in planned and self._take_earlier(order, derivation):
            planned = self.store.to_build(derivation)
        absent = derivation in planned
        if absent:
            self._supply(order, derivation, planned)
            take_seeds(self.store, self.job, derivation, self._file(order.recipe))
        started = datetime.now(UTC)
        ended = self._run(program, order)
        path = self._result(order.name)
        outputs = self.store.outputs(derivation)
        if path not in outputs and not self.store.lacks([path]):  # Flox evaluated the recipe to something else
            derivation = self.store.deriver(path) or derivation
            outputs = self.store.outputs(derivation)
        outputs = tuple(dict.fromkeys((*outputs, path)))
        result = self._made(order, derivation, path, outputs, started)
        staged, remarks = self._share(order, result)
        share_seeds(self.store, self.job, derivation, self._file(order.recipe))
        return result._replace(seconds=ended.seconds, built=absent, staged=staged, remarks=remarks)

    def _take_earlier(self, order: BuildOrder, derivation: str) -> bool:
        """Fetches what `derivation` makes: from the cache, if that signed it, else what a builder signed and staged.

        The cache's key signs what passed its tests, and a daemon what it built, so that any event may take both.
        """
        cache, recipe = self.job.cache, self._file(order.recipe)
        if cache is None:
            return False
        outputs = self.store.outputs(derivation)
        if not self.store.signed(cache, outputs):
            return take(self.store, cache, derivation, recipe).status == 0
        ended = self.store.fetch(cache, outputs, recipe=recipe)
        if ended.status != 0:
            show(f"{order.name} is built here; it cannot be fetched from {cache.url}: {ended.said}")
        return ended.status == 0

    def _made(
        self, order: BuildOrder, derivation: str, path: str, outputs: Sequence[str], started: datetime
    ) -> BuildResult:
        """What the store has of a derivation whose build led to `path`, with those of the `outputs` that are there."""
        try:
            return self._described(derivation, path, outputs, order.recipe, started)
        except StageError:  # an output is not there
            missing = self.store.lacks(outputs)
        if path in missing:
            message = f"{self._link(order.name).name} leads to {path}, which is not valid in the store"
            raise failure(order.name, Code.RESULT_MISSING, message)
        there = [output for output in outputs if output not in missing]
        return self._described(derivation, path, there, order.recipe, started)

    def _described(
        self, derivation: str, path: str, outputs: Sequence[str], recipe: str, started: datetime
    ) -> BuildResult:
        """What the store has of a derivation: `outputs`, of which `path` is the one to install."""
        closure = self.store.closure(*outputs)  # Nix' order: references first
        infos = self.store.described(closure)
        return BuildResult(
            derivation=derivation,
            store_path=path,
            outputs=tuple(outputs),
            closure_size=sum(infos[one].size for one in reachable([path], infos)),
            closure={one: infos[one].content for one in closure},
            started=started,
            seconds=0.0,
            built=False,
            python_modules=self.store.python_modules(self._file(recipe)),
        )

    def build_joined(self, order: BuildOrder, members: Sequence[JoinedVariant]) -> Mapping[str, BuildResult]:  # noqa: ARG002
        """Raises InputError: a recipe makes one variant."""
        raise wrong("joins", Code.JOIN_UNUSABLE, f"{order.name}: a recipe makes one variant")

    def fetch(self, build: BuildRecord) -> bool:
        """Makes the store hold the closure of a build with the content that it states. Returns False if it did."""
        return self.hold(build, tuple(build.closure))

    def fetch_recipe(self, name: str, recipe: str) -> BuildResult:
        """Makes the store hold what a recipe evaluates to, signed by the cache's key."""
        store, cache = self.store, self.job.cache
        derivation = self._derivation(recipe)
        outputs = store.outputs(derivation)
        missing = store.lacks(outputs)
        if missing and cache is not None:
            store.fetch(cache, missing, recipe=self._file(recipe))
            missing = store.lacks(outputs)
        if missing:
            message = f"{missing[0]} is neither {self._looked_in()}; build {name} first"
            raise failure(name, Code.CLOSURE_MISSING, message)
        path = store.attributes(derivation).get("out", outputs[0])
        return self._described(derivation, path, outputs, recipe, datetime.now(UTC))

    def closure(self, build: BuildRecord) -> tuple[str, ...]:
        """The closure of a build's output, its references first; () if the store lacks it."""
        try:
            return self.store.closure(build.store_path)
        except StageError:
            if self.store.lacks([build.store_path]):
                return ()
            raise

    def interpreter(self, build: BuildRecord, scratch: Path) -> Interpreter:  # noqa: ARG002
        """The Python that the build propagates."""
        return interpreter_of(build.store_path, build.outputs, build.python_modules)

    def recorded(self, texts: Sequence[str]) -> tuple[str, ...]:
        """Those of `texts` that the cache holds as records. A cache that does not answer holds none."""
        if self.job.cache is None:
            return ()
        paths = {self.store.text_path(_RECORD, text): text for text in texts}
        try:
            absent = self.store.lacks(list(paths), self.job.cache.url)
        except StageError:
            return ()
        return tuple(text for path, text in paths.items() if path not in absent)

    def record(self, text: str) -> None:
        """Copies a record to the cache."""
        if self.job.cache is None:
            return
        pushed = self.store.push_text(self.job.cache, self.store.add_text(_RECORD, text))
        if pushed.status != 0:
            message = f"the record cannot be copied to {self.job.cache.url}: {pushed.said}"
            raise failure(_RECORD, Code.PUSH_FAILED, message)

    def hold(self, build: BuildRecord, paths: tuple[str, ...]) -> bool:
        """Makes the store hold `paths` of a build. Returns False if it already did; raises StageError if it cannot.

        A path comes from the cache if it is signed by the cache's key, or if the cache has what the manifest states.
        """
        missing, others = self._odd(build, paths)
        if others:
            self._discard(build, others)
            missing = self.store.lacks(paths)
        if not missing:
            return False
        lacks, cache = f"{missing[0]} is not in this machine's store", self.job.cache
        if cache is None:
            message = f"{lacks}, and the spec names no `cache` to fetch it from"
            raise failure(build.name, Code.CLOSURE_MISSING, message)
        ended = self._fetch(build, cache, missing)
        still, others = self._odd(build, paths) if ended.status == 0 else (missing, [])
        if still:
            message = f"{lacks}, and cannot be fetched from {cache.url}: {ended.said}"
            raise failure(build.name, Code.CLOSURE_MISSING, message)
        if others:
            message = f"{cache.url} has another build of {others[0]} than the one that the manifest describes"
            raise failure(build.name, Code.CONTENT_DIFFERS, message)
        return True

    def _fetch(self, build: BuildRecord, cache: BinaryCache, missing: Sequence[str]) -> Ended:
        recipe = self.recipe_of(build)
        if build.staged:
            ended = fetch_staged(self.store, cache, build.staged, closure=build.closure, recipe=recipe)
            if ended.status == 0:
                return ended
        proved = self.store.holds(cache, build.closure)
        fetched = self.store.fetch(cache, missing, proved=proved, recipe=recipe)
        return ended if build.staged and fetched.status != 0 else fetched

    def _discard(self, build: BuildRecord, others: Sequence[str]) -> None:
        """Deletes other builds from the store, so that this one can be fetched."""
        if (ended := self.store.delete(others)).status != 0:
            message = f"the store has another build of {others[0]}, which cannot be deleted: {ended.said}"
            raise failure(build.name, Code.CONTENT_DIFFERS, message)

    def _odd(self, build: BuildRecord, paths: Sequence[str]) -> tuple[Sequence[str], list[str]]:
        """Those of `paths` that the store lacks, and those that it has with another content than the build states."""
        missing: Sequence[str] = ()
        try:
            found = self.store.contents(paths)
        except StageError:
            missing = self.store.lacks(paths)
            found = self.store.contents([path for path in paths if path not in missing])
        return missing, [path for path, content in found.items() if build.closure[path] != content]

    def _is_here(self, build: BuildRecord) -> bool:
        """Whether the store has exactly the closure that a build states, with that content."""
        try:
            infos = self.store.described(tuple(build.closure))
        except StageError:  # the store lacks a path
            return False
        same = {path: info.content for path, info in infos.items()} == build.closure
        return same and reachable(build.outputs, infos) == build.closure.keys()

    def given(self, name: str) -> Secret:
        """The publishing secret called `name`. Raises InputError if the job was not given it."""
        secret = self.job.secrets.get(name)
        if secret is None:
            message = "is not set; the secret of GitHub's environment goes into the step that publishes"
            raise wrong(name, Code.SECRET_MISSING, message)
        return secret

    def recipe_of(self, build: BuildRecord) -> Path:
        """The recipe in the checkout that a build was made from."""
        return self._file(recipe_path(build.name))

    def prove(self, build: BuildRecord, recipe: str) -> None:
        """Raises StageError unless a build has exactly the outputs of the recipe's derivation, with its content."""
        derivation = self._derivation(recipe)
        evaluated, stated = set(self.store.outputs(derivation)), {build.store_path, *build.outputs}
        source = f"{recipe} at {build.commit[:12]}"
        if build.derivation != derivation:
            message = f"{build.derivation} is not the derivation of {source}, which evaluates to {derivation}"
            raise failure(build.name, Code.FOREIGN_OUTPUT, message)
        if foreign := sorted(stated - evaluated):
            message = f"{foreign[0]} is not an output of {source}, which evaluates to {derivation}"
            raise failure(build.name, Code.FOREIGN_OUTPUT, message)
        if lacking := sorted(evaluated - stated):
            message = f"{lacking[0]} is an output of {source}, and the build does not state it"
            raise failure(build.name, Code.FOREIGN_OUTPUT, message)
        if self._is_here(build) or (self.hold(build, build.outputs) and self._is_here(build)):
            return
        if odd := sorted(set(self.store.closure(*build.outputs)).symmetric_difference(build.closure)):
            message = f"{odd[0]} is in the closure of only one of the build that was tested and the one in the store"
            raise failure(build.name, Code.CONTENT_DIFFERS, message)
        self.hold(build, tuple(build.closure))

    def upload(self, build: BuildRecord) -> str:  # noqa: ARG002
        """Nothing to wait for: each build is published by itself."""
        return ""

    def attest(self, build: BuildRecord, tests: Sequence[str], recipe: str = "") -> None:
        """Writes the records into the cache, if the job has its key."""
        attest(self.store, self.job, build, self._outputs(build, recipe), tests)

    def attested(self, build: BuildRecord, tests: Sequence[str], recipe: str = "") -> bool:
        """Whether the cache has the records, signed by its key."""
        return attested(self.store, self.job, build, self._outputs(build, recipe), tests)

    def _outputs(self, build: BuildRecord, recipe: str) -> Sequence[str]:
        """What the closure of a build has of the outputs of `recipe`; its own outputs without one."""
        outputs = self.store.outputs(self._derivation(recipe)) if recipe else build.outputs
        return [path for path in outputs if path in build.closure]

    def _derivation(self, recipe: str) -> str:
        """What the recipe at a path in the repository evaluates to."""
        if recipe not in self._derivations:
            self._derivations[recipe] = self.store.instantiate(self._file(recipe))
        return self._derivations[recipe]

    def _file(self, recipe: str) -> Path:
        return (self.job.recipes or self.job.root) / recipe

    def _refuse_undeclared(self, order: BuildOrder, derivation: str) -> None:
        """Raises StageError if `derivation` uses that of a variant which the spec does not say it needs.

        Looked at are those that a file names, and those whose names a derivation has: all would take minutes.
        """
        uses = frozenset(self.store.closure(derivation) if order.others else ())
        names = [path_name(one) for one in uses]
        looked_at = [one for one in order.others if one.named or any(name.startswith(f"{one.name}-") for name in names)]
        if used := [one for one in looked_at if self._derivation_if_any(one.recipe) in uses]:
            raise StageError([one.finding for one in used])

    def _supply(self, order: BuildOrder, derivation: str, planned: frozenset[str]) -> None:
        """Makes the store hold, or a substituter offer, what `derivation` needs; none of it is built here.

        Proved by Nix' own plan of the build, which may not contain the derivation of another variant. `planned` is the
        plan before anything is fetched.
        """
        uses = frozenset(self.store.closure(derivation) if order.needs else ())
        for need in order.needs:
            if need.expression:
                own = self.store.instantiate_expression(need.recipe, need.expression)
            else:
                own = self._derivation(need.recipe)
            if own not in uses:
                message = f"needs {need.name}, but its recipe uses another derivation than the recipe of {need.name}"
                raise failure(order.name, Code.NEEDS_OTHER, message)
            if own in planned:
                planned = self._fetch_need(order, derivation, need, own)

    def _fetch_need(self, order: BuildOrder, derivation: str, need: NeededVariant, own: str) -> frozenset[str]:
        """Fetches what `own` makes. Returns what Nix would build for `derivation` after that."""
        cache = self.job.cache
        if cache is not None:
            for staged in order.staged:
                if staged.endswith(f"-{staged_name(need.name)}"):
                    fetch_staged(self.store, cache, staged, recipe=self.job.root / order.recipe)
            for path in self.store.lacks(self.store.outputs(own)):  # one by one: the cache may lack some outputs
                self.store.fetch(cache, [path], recipe=self.job.root / order.recipe)
        planned = self.store.to_build(derivation)
        if cache is None or own in planned:
            message = f"needs {need.name}, which is neither {self._looked_in()}; build it first"
            raise failure(order.name, Code.NEEDS_MISSING, message)
        return planned

    def _looked_in(self) -> str:
        where = f"in {self.job.cache.url}" if self.job.cache else "in a cache, because the spec names none"
        return f"in this machine's store nor {where}"

    def _run(self, program: str, order: BuildOrder) -> Ended:
        """Runs the build. Raises StageError with the end of its log."""
        self._link(order.name).unlink(missing_ok=True)
        ended = self._realise(program, order)
        check_built(order, ended)
        return ended

    def _result(self, name: str) -> str:
        """The store path that the build's link leads to."""
        link = self._link(name)
        if not link.is_symlink():
            raise failure(name, Code.RESULT_MISSING, f"the build succeeded, but left no link {link.name}")
        return os.fspath(link.readlink())

    def _share(self, order: BuildOrder, build: BuildResult) -> tuple[str, tuple[str, ...]]:
        """Makes a build available to other machines. Returns the staged build, and remarks about other builds of it.

        What the cache does not have is staged: nothing is signed before it is tested.
        """
        cache, recipe, path = self.job.cache, self.job.root / order.recipe, build.store_path
        if cache is None:
            return "", ()
        try:
            absent = self.store.uncarried(cache, build.closure, recipe)
            remarks = tuple(self._remarks(cache, [output for output in build.outputs if absent.get(output)]))
            if not absent:
                return "", remarks
            staged, ended = stage(self.store, cache, order.name, build.closure, list(absent))
            if staged and ended.status == 0:
                ended = point(cache, build.derivation, staged, seconds=self.job.seconds)
            if ended.status != 0:
                raise failure(path, Code.NIX, ended.said)
        except StageError as error:
            message = f"{path} cannot be copied to {staging(cache)}: {error.findings[0].message}"
            raise failure(order.name, Code.PUSH_FAILED, message) from None
        return staged, remarks

    def _remarks(self, cache: BinaryCache, outputs: Sequence[str]) -> Iterator[str]:
        """How these outputs differ from the builds of them that the cache has."""
        for path in outputs:
            which = "published" if self.store.signed(cache, [path]) else "unsigned"
            found = self.store.difference(cache, path)
            yield f"{cache.url} has another build of {path} ({which}), which differs: {found}"

    def _link(self, name: str) -> Path:
        return self.job.root / LINK.format(name=name)
