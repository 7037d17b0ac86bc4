"""The backend `nix`: `nix-build`, and signed copies into the spec's binary cache."""

from __future__ import annotations

import shlex
from collections.abc import Collection
from typing import TYPE_CHECKING

from ci_compiler.backends.nix_forms import FORMS
from ci_compiler.backends.protocol import Backend, BinaryCache, InstallRequest, NixUse, SecretEvidence, Tool
from ci_compiler.judgement import Judgement, failed, ok

if TYPE_CHECKING:
    from ci_compiler.backends.job import BackendPrograms, JobContext
    from ci_compiler.hardware.machine import Machine

CACHE_KEY = "NIX_CACHE_SIGNING_KEY"
"""The secret key that paths of the binary cache are signed with. A build of any backend signs with it if it is set."""

NIX = Tool(name="nix", install="install Nix, and put it on the PATH of the runner's service")


class Nix(Backend):
    """Nix alone."""

    name = "nix"
    title = "Nix"
    summary = "nix-build, nix copy to `cache`"
    tools = (NIX,)
    secret = CACHE_KEY
    installer = "cachix/install-nix-action"
    nix = NixUse.INSTALLED
    publishes_into_cache = True
    forms = FORMS

    def check_tools(self, machine: Machine, _: Collection[str], *, testing: bool) -> Judgement:  # noqa: ARG002
        """Needs `nix`."""
        if machine.nix and machine.nix.version:
            return ok(f"Nix {machine.nix.version}")
        return failed("nix is not on PATH", NIX.install)

    def check_secret(self, evidence: SecretEvidence) -> Judgement:
        """Judges a signing key against the cache's public key."""
        from ci_compiler.backends.nix_key import check_key

        return check_key(self.secret, evidence)

    def install(self, request: InstallRequest) -> tuple[str, ...]:
        """`nix-build` in a checkout of the branch; what the variant needs is part of its closure."""
        build = " ".join([f"nix-build {request.recipe}", *_cache_options(request.cache)])
        return (shlex.join(["git", "switch", request.branch]), build)

    def programs(self, job: JobContext) -> BackendPrograms:
        """Nix in a job."""
        from ci_compiler.backends.nix_programs import NixPrograms

        return NixPrograms(job)


def _cache_options(cache: BinaryCache | None) -> list[str]:
    """The options that let `nix-build` fetch from the cache, quoted for a shell; none without a cache."""
    if cache is None:
        return []
    options = {"extra-substituters": cache.url, "extra-trusted-public-keys": cache.public_key}
    return [f"--option {name} {shlex.quote(value)}" for name, value in options.items()]
