"""The backend `command`: the repository's own build script, and a declared command that publishes."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from ci_compiler.backends.forms import BASH, FILE
from ci_compiler.backends.protocol import Backend, InstallRequest, OutputForms, SecretEvidence
from ci_compiler.judgement import Judgement, ok

if TYPE_CHECKING:
    from ci_compiler.backends.job import BackendPrograms, JobContext


TOKEN = "PUBLISH_TOKEN"  # noqa: S105  (its name)
"""The name of the publishing secret, where a package names none."""

SCRIPT = r"(?!.*(?:^|/)\.{1,2}(?:/|$))[A-Za-z0-9._][A-Za-z0-9._/-]{0,199}"
"""The path of a script in the repository."""


class CommandBackend(Backend):
    """Commands that the spec declares. The files that they make travel as an artifact."""

    name = "command"
    title = "Command"
    summary = "the build script and the publishing command of each package"
    withdrawal = "use the means of the index that `command.publish` uploads to, such as yanking a release"
    tools = (BASH,)
    secret = TOKEN
    has_recipes = False
    platforms = ()
    uses_artifacts = True
    reads_loader_cache = True
    forms = OutputForms(derivation=re.compile(SCRIPT), path=re.compile(FILE), content=re.compile("sha256:[0-9a-f]{64}"))

    def check_secret(self, evidence: SecretEvidence) -> Judgement:
        """Accepts any secret: only the publishing command knows its form."""
        return ok(f"given: {evidence.name}; only publishing shows whether the place accepts what was given")

    def install(self, request: InstallRequest) -> tuple[str, ...]:
        """The declared commands, which install what the variants need as well."""
        return request.declared

    def verify(self, script: str, *_: object) -> tuple[str, ...]:
        """The Python that the declared command installs into."""
        return (shlex.join(["python3", "-c", script]),)

    def programs(self, job: JobContext) -> BackendPrograms:
        """The declared commands in a job."""
        from ci_compiler.backends.command_programs import CommandPrograms

        return CommandPrograms(job)
