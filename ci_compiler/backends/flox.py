"""The backend `flox`: `flox build`, and `flox publish` into the catalog of the spec's owner on FloxHub."""

from __future__ import annotations

import shlex
from collections.abc import Collection
from typing import TYPE_CHECKING

from ci_compiler.backends.forms import FLOX, FORMS
from ci_compiler.backends.protocol import Backend, InstallRequest, NixUse, SecretEvidence
from ci_compiler.judgement import Judgement, failed, ok

if TYPE_CHECKING:
    from ci_compiler.backends.job import BackendPrograms, JobContext
    from ci_compiler.hardware.machine import Machine


class Flox(Backend):
    """Flox, which brings its own Nix."""

    name = "flox"
    title = "Flox"
    summary = "flox build, flox publish"
    withdrawal = (
        "flox has no command that removes a published package; ask FloxHub to remove it, and publish a fixed build"
    )
    tools = (FLOX,)
    secret = "FLOX_FLOXHUB_TOKEN"  # noqa: S105  (its name)
    installer = "flox/install-flox-action"
    nix = NixUse.OWN
    builds_to_publish = True
    reads_loader_cache = True
    forms = FORMS
    image = "flox"
    locks = (".flox/env/manifest.lock", ".flox/nix-builds.lock")  # the "toplevel" group; catalogs (nix-builds.toml(5))
    about = ("Flox is a package manager for Linux and macOS", "https://flox.dev/docs/install-flox")

    def check_tools(self, machine: Machine, _: Collection[str], *, testing: bool) -> Judgement:
        """Needs `flox`; for a test, `nix` is enough."""
        version = machine.nix.version if machine.nix else ""
        if machine.flox:
            return ok(f"flox {machine.flox}, {f'Nix {version}' if version else 'its own Nix, none on PATH'}")
        if testing and version:
            return ok(f"no flox, but Nix {version}, which is enough for a test")
        return failed("flox is not on PATH", FLOX.install)

    def secret_command(self, text: str) -> tuple[str, ...]:
        """Flox is asked about an opaque token, which states nothing about itself."""
        from ci_compiler.backends.floxhub_token import is_opaque

        return ("flox", "auth", "status") if is_opaque(text) else ()

    def check_secret(self, evidence: SecretEvidence) -> Judgement:
        """Judges a token of FloxHub."""
        from ci_compiler.backends.floxhub_token import check_token

        return check_token(self.secret, evidence)

    def install(self, request: InstallRequest) -> tuple[str, ...]:
        """One `flox install` of the variants and of what they need."""
        packages = (f"{request.owner}/{name}" + (f"@{version}" if version else "") for name, version in request.wanted)
        return (" ".join(["flox install", *packages]),)

    def verify(self, script: str, *_: object) -> tuple[str, ...]:
        """Python in the environment of the present folder."""
        return (shlex.join(["flox", "activate", "--", "python3", "-c", script]),)

    def programs(self, job: JobContext) -> BackendPrograms:
        """Flox in a job, and Nix for the store."""
        from ci_compiler.backends.flox_programs import FloxPrograms

        return FloxPrograms(job, self.secret)
