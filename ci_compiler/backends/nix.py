"""The backend `nix`: `nix-build`, and signed copies into the spec's binary cache."""

from __future__ import annotations

import shlex
from collections.abc import Collection
from typing import TYPE_CHECKING

from ci_compiler.backends.forms import CACHE_KEY, FORMS
from ci_compiler.backends.protocol import (
    Backend,
    BinaryCache,
    InstallRequest,
    NixUse,
    SecretEvidence,
    Tool,
)
from ci_compiler.judgement import Judgement, failed, ok

if TYPE_CHECKING:
    from ci_compiler.backends.job import BackendPrograms, JobContext
    from ci_compiler.hardware.machine import Machine

NIX = Tool(name="nix", install="install Nix, and put it on the PATH of the runner's service")


class Nix(Backend):
    """Nix alone."""

    name = "nix"
    title = "Nix"
    summary = "nix-build, nix copy to `cache`"
    withdrawal = (
        "Nix has no command that removes a path from a binary cache; delete the .narinfo files of the "
        "outputs there (`ci-compile evaluate NAME` lists them), and publish a fixed build"
    )
    tools = (NIX,)
    secret = CACHE_KEY
    installer = "cachix/install-nix-action"
    nix = NixUse.INSTALLED
    publishes_into_cache = True
    forms = FORMS
    about = ("Nix is a package manager for Linux and macOS", "https://nixos.org/download/")

    def check_tools(self, machine: Machine, _: Collection[str], *, testing: bool) -> Judgement:  # noqa: ARG002
        """Needs `nix`."""
        if machine.nix and machine.nix.version:
            return ok(f"Nix {machine.nix.version}")
        return failed("nix is not on PATH", NIX.install)

    def check_secret(self, evidence: SecretEvidence) -> Judgement:
        """Judges a signing key (NAME:BASE64 of 64 bytes, whose second half is the public key)."""
        import base64

        fix = (
            "make a pair with `nix key generate-secret`, its public half into cache.public-key, into the secret "
            f"{self.secret}"
        )
        name, _, text = evidence.text.strip().partition(":")
        try:
            data = base64.b64decode(text, validate=True)
        except ValueError:
            data = b""
        if len(data) != 64:
            return failed(f"{self.secret} holds no signing key of Nix (NAME:BASE64)", fix)
        if evidence.cache is None:
            return ok(f"{self.secret} is the key {name}")
        if f"{name}:{base64.b64encode(data[32:]).decode()}" != evidence.cache.public_key:
            return failed(
                f"{self.secret} is the key {name}, which is not the pair of cache.public-key in the spec", fix
            )
        return ok(f"{self.secret} is the pair of the cache's public key {name}")

    def install(self, request: InstallRequest) -> tuple[str, ...]:
        """`nix-build` in a checkout of the branch; what a variant needs is part of its closure."""
        build = " ".join(["nix-build", *request.recipes, *_cache_options(request.cache)])
        return (shlex.join(["git", "switch", request.branch]), build)

    def verify(self, script: str, recipes: Collection[str], cache: BinaryCache | None) -> tuple[str, ...]:
        """A Python with the packages of `recipes` (nixpkgs' `withPackages`), in the same checkout."""
        if not recipes:
            return ()
        built = " ".join(f"(import ./{recipe} {{ }})" for recipe in recipes)
        python = f"let built = [ {built} ]; in (builtins.head built).pythonModule.withPackages (_: built)"
        build = " ".join(["nix-build --no-out-link --expr", shlex.quote(python), *_cache_options(cache)])
        return (f'"$({build})/bin/python3" -c {shlex.quote(script)}',)

    def programs(self, job: JobContext) -> BackendPrograms:
        """Nix in a job."""
        from ci_compiler.backends.nix_programs import NixPrograms

        return NixPrograms(job)


def _cache_options(cache: BinaryCache | None) -> list[str]:
    """The options that let `nix-build` fetch from the cache, quoted for a shell; none without a cache."""
    if cache is None:
        return []
    options = {"extra-substituters": cache.url, "extra-trusted-public-keys": " ".join(cache.keys)}
    return [f"--option {name} {shlex.quote(value)}" for name, value in options.items()]
