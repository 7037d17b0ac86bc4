"""Verifying what was published, for whoever uses it: signature, content, tests, attestation and recipe.

Trusted are the spec in the checkout, which names the cache and its key, and what GitHub verifies. Of the cache, and of
the machines that built, nothing is believed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, TypeVar

from ci_compiler.backends.checkout import JobCheckout
from ci_compiler.backends.forms import FORMS, path_name
from ci_compiler.backends.nar import hex_digest
from ci_compiler.backends.nix_store import NixStore
from ci_compiler.backends.own_store import store_of
from ci_compiler.backends.protocol import BinaryCache
from ci_compiler.backends.tested import key_name, tested_there
from ci_compiler.codes import Code
from ci_compiler.errors import Finding, StageError, failure, wrong
from ci_compiler.plan.lookup import BuiltVariant, built_variants
from ci_compiler.plan.pipeline import plan
from ci_compiler.plan.proof import coverage, required_tests
from ci_compiler.plan.sharding import FOLDER
from ci_compiler.runner.jobs.attested import Attestation, attestations
from ci_compiler.runner.limits import job_seconds
from ci_compiler.runner.targets import find
from ci_compiler.spec.model import Spec
from ci_compiler.stages import PUBLISH
from ci_compiler.workflows.common import CELL, JOINED, VARIANT


class VerifiedPath(NamedTuple):
    """A store path that is what it claims to be: the commit whose recipe makes it, and the ref of the run.

    `tested` says which tests it passed, or why there are none.
    """

    path: str
    commit: str
    ref: str
    tested: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verifier:
    """What one variant is verified with: the spec's cache, and the checkout with the commits.

    `built` is the variant, on each branch that may have built it. `commit` is the only one that counts ('': any of
    these branches), and `repository` has the workflow that attests.
    """

    spec: Spec
    built: tuple[BuiltVariant, ...]
    cache: BinaryCache
    store: NixStore
    checkout: JobCheckout
    commit: str
    repository: str
    _evaluated: dict[str, tuple[str, ...]] = field(default_factory=dict, init=False)

    def outputs(self, commit: str) -> tuple[str, ...]:
        """The outputs that the recipe evaluates to at `commit`."""
        if commit not in self._evaluated:
            with self.checkout.tree(commit) as tree:
                derivation = self.store.instantiate(tree / self.built[0].recipe)
            self._evaluated[commit] = self.store.outputs(derivation)
        return self._evaluated[commit]

    def verify(self, path: str, url: str) -> VerifiedPath:
        """Verifies `path` with its content in the store at `url` ('': this machine's). Raises StageError."""
        content = self._signed(path)
        with TemporaryDirectory(prefix="ci-runner-verify-", ignore_cleanup_errors=True) as folder:
            archive = Path(folder, "archive.nar")
            self._dump(path, archive, url, content)
            kind = JOINED if self.built[0].cell.joined else VARIANT if self.built[0].cell.called else CELL
            attested = attestations(path, archive, content, self.repository, f"{FOLDER}/{kind}")
        return _first(partial(self._verified, path, attestation) for attestation in dict.fromkeys(attested))

    def _signed(self, path: str) -> str:
        """The hash of the content of `path` that the key of the cache signed, in base 16."""
        where = self.cache.url
        if self.store.lacks([path], where):
            raise failure(path, Code.CLOSURE_MISSING, f"is not in {where}")
        if not self.store.signed(self.cache, [path]):
            message = (
                f"{where} holds it, but it or something that it needs has no valid signature by {key_name(self.cache)}"
            )
            raise failure(path, Code.PUBLISH_UNSIGNED, message)
        return hex_digest(self.store.contents([path], where)[path])

    def _dump(self, path: str, archive: Path, url: str, content: str) -> None:
        """Writes the content of `path` to the file `archive`. Raises StageError if its hash is not `content`."""
        with archive.open("w+b") as file:
            ended = self.store.dump(path, file, url)
            file.seek(0)
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if ended.status != 0 or digest != content:
            why = ended.said if ended.status != 0 else f"its hash is sha256:{digest}, not sha256:{content}"
            message = f"{url or 'this store'} has another content than the signed one: {why}"
            raise failure(path, Code.CONTENT_DIFFERS, message)

    def _verified(self, path: str, attested: Attestation) -> VerifiedPath:
        """`path` as a run on a branch of the spec attested it. Raises StageError if that cannot be."""
        ref, commit = attested
        if self.commit and commit != self.commit:
            raise failure(path, Code.ATTESTATION_DIFFERS, f"is attested as built from {commit}, not from {self.commit}")
        if ref not in {f"refs/heads/{name}" for name in self.spec.branches}:
            message = f"is attested by a run of {ref}, which is not a branch of the spec"
            raise failure(path, Code.ATTESTATION_DIFFERS, message)
        _first(partial(self.checkout.require, built.cell.branch, commit) for built in self.built)
        if path not in (outputs := self.outputs(commit)):
            source = f"{self.built[0].recipe} at {commit[:12]}"
            message = f"is attested as built from {source}, which evaluates to {outputs[0]}"
            raise failure(path, Code.FOREIGN_OUTPUT, message)
        return VerifiedPath(path=path, commit=commit, ref=ref, tested=self._tested(path, ref))

    def _tested(self, path: str, ref: str) -> str:
        """The tests that the branch's variant must have passed, of each of which the cache has a signed record."""
        built = next((one for one in self.built if ref == f"refs/heads/{one.cell.branch}"), self.built[0])
        claimed = coverage(built.spec, built.cell, built.variant, built.route)
        tests = tuple(required_tests(built.spec, built.cell, built.variant, built.route))
        if not claimed or not tested_there(self.store, self.cache, [path], tests):
            message = f"{self.cache.url} has no signed record that this content {claimed or 'passed any test'}"
            raise failure(path, Code.NO_TEST_RECORD, message)
        return claimed


Result = TypeVar("Result")


def _first(tries: Iterable[Callable[[], Result]]) -> Result:
    """The result of the first of `tries` that succeeds. Raises StageError with the findings of all."""
    findings: list[Finding] = []
    for attempt in tries:
        try:
            return attempt()
        except StageError as error:
            findings += error.findings
    raise StageError(findings)


def verify(
    spec: Spec, root: Path, target: str, repository: str, *, branch: str = "", commit: str = ""
) -> Iterator[VerifiedPath]:
    """Verifies a store path with the content that this machine has, or every output of a variant in the cache.

    `target` is the path, a link to it, or the variant's name; its outputs are those of `commit` ('': the branch's tip).
    Raises InputError, and StageError for the first path that is not as it should be.
    """
    if not spec.backend.has_recipes:
        message = f"{spec.backend.name} publishes files, not store paths; `gh attestation verify FILE` verifies one"
        raise wrong("backend", Code.WRONG_VALUE, message)
    if spec.cache is None:
        raise wrong("cache", Code.CACHE_MISSING, "the spec names no cache, whose key would sign what is published")
    store = store_of(spec.cache, seconds=job_seconds(spec.timeouts[PUBLISH]))
    path = _store_path(target)
    built = _builders(spec, path, branch) if path else (find(spec, target, branch),)
    checkout = JobCheckout(root)
    verifier = Verifier(
        spec=spec,
        built=built,
        cache=spec.cache,
        store=store,
        checkout=checkout,
        commit=checkout.resolve(commit) if commit else "",
        repository=repository,
    )
    if path:
        yield verifier.verify(path, spec.cache.url if store.lacks([path]) else "")
        return
    for one in verifier.outputs(verifier.commit or checkout.tip(built[0].cell.branch)):
        yield verifier.verify(one, spec.cache.url)


def _store_path(target: str) -> str:
    """The store path that `target` is, or is in, or is a link into; '' for a name."""
    if "/" not in target and not Path(target).is_symlink():
        return ""
    whole = Path(target).resolve()
    for path in (whole, *whole.parents):
        if FORMS.path.fullmatch(str(path)):
            return str(path)
    raise wrong(
        target, Code.WRONG_VALUE, "is not in a Nix store; give a store path, a link to one, or the name of a variant"
    )


def _builders(spec: Spec, path: str, branch: str) -> tuple[BuiltVariant, ...]:
    """The variant whose name a store path has, on `branch` ('': on each that builds it). Raises InputError."""
    name = path_name(path)
    named = [built for built in built_variants(plan(spec)) if built.variant.name in name]
    if not named:
        raise wrong(
            path, Code.UNKNOWN_VARIANT, f"{name!r} has no variant's name in it; give the variant's name instead"
        )
    longest = max((built.variant.name for built in named), key=len)
    return (
        (find(spec, longest, branch),) if branch else tuple(built for built in named if built.variant.name == longest)
    )
