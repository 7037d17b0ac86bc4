"""The declared commands in a job: the build script, the setup of a test, and publishing.

Each gets the variant's values in its environment, as `VARIANT_` and the value's name in capitals, and runs in the root
of the repository. The setup of a test and publishing also get `VARIANT_FILES`, the folder of the files, and the build
and tests `VARIANT_NEEDS`, with a folder for each needed package. Only the commands about publishing get the publishing
secrets.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ci_compiler.backends.command_files import (
    FOLDER,
    check_apart,
    clear,
    collect,
    filled,
    held,
    matching,
    open_pattern,
    verify,
)
from ci_compiler.backends.container import contained
from ci_compiler.backends.forms import BASH
from ci_compiler.backends.images import check_images
from ci_compiler.backends.job import (
    BuildOrder,
    BuildRecord,
    BuildResult,
    DeclaredCommands,
    Interpreter,
    JobContext,
    JoinedVariant,
    check_built,
    show,
    variables,
)
from ci_compiler.backends.wheels import check_wheels
from ci_compiler.codes import Code
from ci_compiler.errors import failure, wrong
from ci_compiler.files.folders import SBOM_FILE
from ci_compiler.git import Git
from ci_compiler.outside import bytes_of, reading
from ci_compiler.process import Ended, ask, find_program, follow, located
from ci_compiler.publishing.plan import Upload, expired, other_commit, release_of, waits_for
from ci_compiler.publishing.target import Target, place_failures, planned, upload
from ci_compiler.secret import Secret
from ci_compiler.system import SYSTEM
from ci_compiler.units import counted, duration

_PIP = "python -m pip --disable-pip-version-check install --no-input "


def _installation(setup: str, files: Iterable[Path]) -> str:
    """The command that installs `files`: the declared one, or pip for the wheels among them; '' if there is none."""
    wheels = [str(path) for path in files if path.suffix == ".whl"]
    return setup or (_PIP + shlex.join(wheels) if wheels else "")


def shell(line: str) -> list[str]:
    """The command that runs a declared line, and ends at the first failure. Raises InputError if there is no Bash."""
    return [find_program(BASH.name, install=BASH.install), "-euo", "pipefail", "-c", line]


def _python(version: str) -> list[str]:
    """The command of the Python of `version`. Raises InputError if there is none."""
    named, *others = ([word.format(version) for word in words] for words in SYSTEM.pythons)
    for command in () if located(named[0]) else others:
        program = located(command[0])
        if program and ask([program, *command[1:], "-c", _VERSION], seconds=60).out.strip() == version:
            return [program, *command[1:]]
    return [find_program(named[0], install="install it, with its module venv")]


_VERSION = (
    "import sys, sysconfig; "
    "print('%d.%d' % sys.version_info[:2] + 't' * bool(sysconfig.get_config_var('Py_GIL_DISABLED')))"
)


def _lines_checked(script: str, root: Path) -> Path:
    """The path of a script below `root`. Raises InputError if its lines end as on Windows, which no shell reads."""
    with reading(script, Code.CANNOT_START):
        if bytes_of(root / script).partition(b"\n")[0].endswith(b"\r"):
            message = f"its lines end with CR LF; write `{script} text eol=lf` to .gitattributes, and check out again"
            raise wrong(script, Code.CANNOT_START, message)
    return root / script


def _result(
    script: str, folder: Path, hashes: Mapping[str, str], *, started: datetime, seconds: float, built: bool
) -> BuildResult:
    """The result that is the files with these hashes in `folder`."""
    return BuildResult(
        derivation=script,
        store_path=next(iter(hashes)),
        outputs=tuple(hashes),
        closure_size=sum((folder / path).stat().st_size for path in hashes),
        closure=hashes,
        started=started,
        seconds=seconds,
        built=built,
    )


class CommandPrograms:
    """The commands of one package."""

    def __init__(self, job: JobContext) -> None:
        self.job = job

    def evaluate(self, recipe: str) -> Mapping[str, str]:  # noqa: ARG002
        """Nothing: a build script evaluates to nothing."""
        return {}

    def build(self, order: BuildOrder) -> BuildResult:
        """Runs the build script, and copies the declared files to the folder of the manifest."""
        alone = JoinedVariant(
            name=order.name,
            patterns=tuple(filled(one, self.job.values) for one in self._commands().files),
            folder=self.job.folder,
            version=self.job.values["version"] if self._commands().version else "",
            python=self.job.values["python"],
            package=self.job.values["package"],
        )
        return self.build_joined(order, [alone])[order.name]

    def build_joined(self, order: BuildOrder, members: Sequence[JoinedVariant]) -> Mapping[str, BuildResult]:
        """Runs the build script once, and copies the files of each of `members` to its folder.

        Raises StageError for a file that two of them, or none, would take.
        """
        commands, root = self._commands(), self.job.root
        every = {*map(open_pattern, commands.files), *(pattern for variant in members for pattern in variant.patterns)}
        before = matching(root, sorted(every))
        started = datetime.now(UTC)
        script = _lines_checked(commands.build, root).as_posix()
        with contained(self.job.container, root, self._given(), self._needed()) as prefix:
            words = [*prefix, script] if prefix or SYSTEM.starts_scripts else shell(shlex.quote(script))
            env = self._environment()
            ended = follow(words, show, seconds=self.job.seconds, log=order.log, env=env, folder=root)
        check_built(order, ended)
        if len(members) > 1:
            check_apart(order.name, root, members, commands.files, before)
        found = {}
        for variant in members:
            hashes = collect(variant.name, root, variant.patterns, before, variant.folder)
            files = [variant.folder / path for path in hashes]
            check_wheels(variant, files)
            check_images(variant.name, files, self.job.values, self.job.needed)
            found[variant.name] = _result(
                commands.build, variant.folder, hashes, started=started, seconds=ended.seconds, built=True
            )
        return found

    def fetch(self, build: BuildRecord) -> bool:
        """Verifies the files, which came with the manifest."""
        verify(build.name, self.job.folder, build.closure)
        return False

    def fetch_recipe(self, name: str, recipe: str) -> BuildResult:
        """Fetches the published files by the declared command, to the folder of the manifest."""
        line, started = self._commands().fetch, datetime.now(UTC)
        if not line:
            raise failure(name, Code.CLOSURE_MISSING, "its package declares no command `fetch`")
        clear(self.job.folder / FOLDER)
        ended = self._run(shell(line), self._environment(VARIANT_FILES=self._files()))
        if ended.status != 0:
            message = f"its command `fetch` ended with status {ended.status}; the end of its output follows"
            raise failure(name, Code.CLOSURE_MISSING, message, tail=ended.out.splitlines())
        hashes = held(name, self.job.folder)
        return _result(recipe, self.job.folder, hashes, started=started, seconds=ended.seconds, built=False)

    def closure(self, build: BuildRecord) -> tuple[str, ...]:
        """The files."""
        return tuple(map(str, verify(build.name, self.job.folder, build.closure)))

    def interpreter(self, build: BuildRecord, scratch: Path) -> Interpreter:
        """A virtual environment of the variant's Python with the files installed; only the files if none is Python's.

        The declared `setup` installs them, or pip does, if there are wheels among them. The files of what the variant
        needs are installed before, in the same way.
        """
        line = _installation(self._commands().setup, verify(build.name, self.job.folder, build.closure))
        if not line:
            lacks = "has no wheel, and the package declares no `setup` that installs its files"
            return Interpreter(program="", home=self._files(), lacks=lacks)
        home = scratch / "environment"
        programs = home / SYSTEM.programs
        python = _python(self.job.values["python"] or "3")
        self._set_up(build.name, [*python, "-m", "venv", os.fspath(home)], self._environment())
        path = os.pathsep.join((os.fspath(programs), os.environ.get("PATH", os.defpath)))
        env = self._environment(VIRTUAL_ENV=os.fspath(home), PATH=path)
        for needed in self.job.needed:
            if first := _installation(needed.setup, sorted(needed.folder.iterdir())):
                given = {**variables(needed.values), "VARIANT_FILES": needed.folder.as_posix()}
                self._set_up(
                    build.name, shell(first), env | given, of=f"the files of {needed.package}, which it needs,"
                )
        self._set_up(build.name, shell(line), env | {"VARIANT_FILES": self._files()})
        return Interpreter(program=os.fspath(programs / f"python{SYSTEM.suffix}"), home=os.fspath(home))

    def outputs(self, recipes: Collection[str]) -> Mapping[str, tuple[str, ...]]:  # noqa: ARG002
        """Nothing: a build script evaluates to nothing."""
        return {}

    def prove(self, build: BuildRecord, recipe: str) -> None:  # noqa: ARG002
        """Verifies the files: a build script evaluates to nothing that could be compared."""
        verify(build.name, self.job.folder, build.closure)

    def recorded(self, texts: Sequence[str]) -> tuple[str, ...]:  # noqa: ARG002
        """Nothing: there is no cache."""
        return ()

    def record(self, text: str) -> None:
        """Does nothing: there is no cache."""

    def attest(self, build: BuildRecord, tests: Sequence[str], recipe: str = "") -> None:
        """Does nothing: there is no cache."""

    def attested(self, build: BuildRecord, tests: Sequence[str], recipe: str = "") -> bool:  # noqa: ARG002
        """Whether the files hold nothing of the recipe: they are only the variant's own, and have no records."""
        return bool(recipe)

    def is_published(self, name: str, version: str, recipe: str, tests: Sequence[str]) -> bool:  # noqa: ARG002
        """Whether the target, or the declared command, says that the version is published; False if there is none."""
        if self.job.target:
            with place_failures(name):
                target = self.job.target()
                there = {(name, version), ("", release_of(version))} & set(target.versions())
                return bool(there) and not target.unfinished(version, name)
        return bool(self._published())

    def published(self, build: BuildRecord, tests: Sequence[str]) -> str:  # noqa: ARG002
        """The files that the target shows, or the command that says so."""
        if self.job.target:
            with place_failures(build.name):
                wanted = self._uploads(build)
                there = planned(self.job.target(), wanted).present
            return f"{' and '.join(there)} is there" if len(there) == len(wanted) else ""
        return self._published()

    def upload(self, build: BuildRecord) -> str:
        """Uploads the files of a whole release to the target, which does not show them yet."""
        if not self.job.target or not self.job.whole:
            return ""
        with place_failures(build.name):
            target, every, wanted = self.job.target(), self.job.whole(), self._uploads(build)
            if len(planned(target, wanted).present) < len(wanted):
                release = target.staged(build.version, every)
                if because := other_commit(release, build.commit, Git(self.job.root).has_ancestor):
                    message = f"the release {release_of(build.version)} {because}"
                    raise failure(build.name, Code.RELEASE_OTHER_COMMIT, message)
            upload(target, wanted, show)
            if waits := waits_for(target.staged(build.version, every), every, build.commit):
                self._remove_old(target)
            return waits

    def publish(self, build: BuildRecord) -> None:
        """Publishes by the target, where nights that are not kept then end, or by the declared command."""
        if self.job.target:
            with place_failures(build.name):
                target = self.job.target()
                upload(target, self._uploads(build), show)
                target.finish(build.version, self.job.whole() if self.job.whole else [build.name])
                self._remove_old(target)
            return
        verify(build.name, self.job.folder, build.closure)
        ended = self._with_secret(str(self._commands().publish), VARIANT_FILES=self._files())
        if ended.status != 0:
            message = f"the publishing command ended with {ended.status} after {duration(ended.seconds)}: {ended.said}"
            raise failure(build.name, Code.PUBLISH_FAILED, message)

    def _remove_old(self, target: Target) -> None:
        """Removes nights that are not kept, and uploads of releases that were never completed."""
        keep, now = self.job.keep, datetime.now(UTC)
        old = expired(target.versions(), keep, now) if keep else ()
        needed = target.needed(old)
        if gone := [version for version in old if version not in needed]:
            target.withdraw(gone, "")
            show(f"{counted(len(gone), 'night')} removed")
        if needed:
            show(f"{counted(len(needed), 'night')} kept longer, because what stays there needs it")
        if keep and keep.uploads:
            try:
                removed = target.remove_abandoned(now - timedelta(days=keep.uploads))
            except OSError as error:  # a key may have no right to list a bucket, and the files are published
                show(f"uploads of releases that were never completed stay: {error}")
                removed = 0
            if removed:
                show(f"{counted(removed, 'old upload')} removed, whose release was never completed")

    def _uploads(self, build: BuildRecord) -> list[Upload]:
        """The files of a build, verified, with the digests that its manifest states."""
        digests = {self.job.folder / path: digest.removeprefix("sha256:") for path, digest in build.closure.items()}
        files = verify(build.name, self.job.folder, build.closure)
        sbom = self.job.folder / SBOM_FILE
        kept = sbom if sbom.is_file() else None
        return [Upload(path.name, digests[path], path, build.name, build.version, build.commit, kept) for path in files]

    def _published(self) -> str:
        line = self._commands().published
        return f"`{line}` succeeds" if line and self._with_secret(line).status == 0 else ""

    def _with_secret(self, line: str, **more: str) -> Ended:
        secrets = {name: self.job.secrets[name] for name in self._commands().secrets if name in self.job.secrets}
        given = {name: secret.reveal() for name, secret in secrets.items()}
        return self._run(shell(line), self._environment(**given, **more), secrets.values())

    def _set_up(self, name: str, command: list[str], env: Mapping[str, str], *, of: str = "its files") -> None:
        ended = self._run(command, env)
        if ended.status != 0:
            message = f"{of} cannot be installed for the test (status {ended.status}); the end of the output follows"
            raise failure(name, Code.SETUP_FAILED, message, tail=ended.out.splitlines())

    def _run(self, command: list[str], env: Mapping[str, str], secrets: Iterable[Secret] = ()) -> Ended:
        return follow(command, show, seconds=self.job.seconds, env=env, folder=self.job.root, secrets=secrets)

    def _environment(self, **more: str) -> dict[str, str]:
        return {**os.environ, **self._given(), **more}

    def _given(self) -> dict[str, str]:
        """The variables of the variant."""
        needs = {"VARIANT_NEEDS": self.job.needs.as_posix()} if self.job.needs else {}
        return {**self.job.environment, **needs}

    def _needed(self) -> list[Path]:
        """The folders of what it needs, and where their links lead."""
        every = [self.job.needs, *(needed.folder.resolve() for needed in self.job.needed)]
        return [folder for folder in every if folder]

    def _files(self) -> str:
        """The absolute path of the folder of the files; the commands run in the root of the repository."""
        return (self.job.folder / FOLDER).absolute().as_posix()

    def _commands(self) -> DeclaredCommands:
        if self.job.commands is None:
            raise wrong("packages", Code.COMMAND_MISSING, "the package of this variant declares no `command`")
        return self.job.commands
