"""Flox in a job: `flox build`, `flox show` and `flox publish`."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from ci_compiler.backends.checkout import JobCheckout
from ci_compiler.backends.forms import FLOX
from ci_compiler.backends.job import BuildOrder, BuildRecord, JobContext
from ci_compiler.backends.nix_recipes import RecipePrograms
from ci_compiler.codes import Code
from ci_compiler.errors import failure
from ci_compiler.process import Ended, ask
from ci_compiler.units import duration

_SHOW_SECONDS = 120.0


class FloxPrograms(RecipePrograms):
    """Flox and the catalog of the owner; `secret` is the name of the token.

    Flox builds the derivation that the recipe evaluates to (its makefile calls `nix build` on the `drvPath`).
    """

    builder = FLOX

    def __init__(self, job: JobContext, secret: str) -> None:
        super().__init__(job)
        self._secret = secret

    def _realise(self, program: str, order: BuildOrder) -> Ended:
        # Assumes `flox-build`.
        return self._follow([program, "build", order.name], log=order.log)

    def is_published(self, name: str, version: str, recipe: str, tests: Sequence[str]) -> bool:  # noqa: ARG002
        """Whether the catalog has the version: it distinguishes versions, not recipes or commits."""
        return bool(self._listed(name, version))

    def published(self, build: BuildRecord, tests: Sequence[str]) -> str:  # noqa: ARG002
        """The version as `flox show` lists it; '' if the answer lists no such version."""
        return self._listed(build.name, build.version)

    def publish(self, build: BuildRecord) -> None:
        """Publishes by `flox publish`, on the branch itself, with the result in the store so that Flox finds it."""
        flox, token = self._program(), self.given(self._secret)
        JobCheckout(self.job.root).put_on(build.branch, build.commit)
        command = [flox, "publish", "-o", self.job.owner, build.name]  # Assumes `flox-publish`.
        ended = self._follow(command, env=self._environment(), secrets=[token])
        if ended.status != 0:
            message = f"flox publish ended with {ended.status} after {duration(ended.seconds)}: {ended.said}"
            raise failure(build.name, Code.PUBLISH_FAILED, message)

    def _listed(self, name: str, version: str) -> str:
        owner, token = self.job.owner, self.job.secrets.get(self._secret)
        command = [self._program(), "show", f"{owner}/{name}"]
        ended = ask(command, seconds=_SHOW_SECONDS, env=self._environment(), folder=self.job.root, secret=token)
        shown = re.findall(rf"(?<![\w./-])(?:{re.escape(owner)}/)?{re.escape(name)}@([^\s,]+)", ended.out)
        return f"flox show lists {owner}/{name}@{version}" if version in shown else ""

    def _environment(self) -> dict[str, str]:
        token = self.job.secrets.get(self._secret)
        return {**os.environ, **({self._secret: token.reveal()} if token else {})}
