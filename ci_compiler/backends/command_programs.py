"""The declared commands in a job: the build script, the setup of a test, and publishing.

Each gets the variant's values in its environment, as `VARIANT_` and the value's name in capitals, and runs in the root
of the repository. The setup of a test and publishing also get `VARIANT_FILES`, the folder of the files, and the build
and tests `VARIANT_NEEDS`, with a folder for each needed package. Only the commands about publishing get the publishing
secrets.

The spec may put a build script into a container of the machine's engine. The container has the checkout, at the same
path and for the same user, and the variables of the variant: nothing else of the job.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.parser import Parser
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

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
from ci_compiler.backends.forms import BASH
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
from ci_compiler.codes import Code
from ci_compiler.errors import failure, wrong
from ci_compiler.files.folders import SBOM_FILE
from ci_compiler.git import Git
from ci_compiler.outside import member_of
from ci_compiler.process import Ended, ask, find_program, follow
from ci_compiler.publishing.images import SUFFIX, Image, image_of
from ci_compiler.publishing.plan import Upload, expired, other_commit, release_of, waits_for
from ci_compiler.publishing.target import Target, place_failures, planned, upload
from ci_compiler.secret import Secret
from ci_compiler.units import counted, duration

if TYPE_CHECKING:
    from ci_compiler.backends.job import JoinedVariant, NeededFiles


_PIP = "python -m pip --disable-pip-version-check install --no-input "


def _installation(setup: str, files: Iterable[Path]) -> str:
    """The command that installs `files`: the declared one, or pip for the wheels among them; '' if there is none."""
    wheels = [str(path) for path in files if path.suffix == ".whl"]
    return setup or (_PIP + shlex.join(wheels) if wheels else "")


def shell(line: str) -> list[str]:
    """The command that runs a declared line, and ends at the first failure. Raises InputError if there is no Bash."""
    return [find_program(BASH.name, install=BASH.install), "-euo", "pipefail", "-c", line]


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
        every = {*map(open_pattern, commands.files), *(pattern for one in members for pattern in one.patterns)}
        before = matching(root, sorted(every))
        started = datetime.now(UTC)
        script = os.fspath(root / commands.build)
        with contained(self.job.container, root, self._given(), self._needed()) as prefix:
            words, env = [*prefix, script], self._environment()
            ended = follow(words, show, seconds=self.job.seconds, log=order.log, env=env, folder=root)
        check_built(order, ended)
        if len(members) > 1:
            check_apart(order.name, root, members, commands.files, before)
        found = {}
        for one in members:
            hashes = collect(one.name, root, one.patterns, before, one.folder)
            files = [one.folder / path for path in hashes]
            check_wheels(one, files)
            check_images(one.name, files, self.job.values, self.job.needed)
            found[one.name] = _result(
                commands.build, one.folder, hashes, started=started, seconds=ended.seconds, built=True
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
        python = find_program(f"python{self.job.values['python'] or '3'}", install="install it, with its module venv")
        home = scratch / "environment"
        self._set_up(build.name, [python, "-m", "venv", os.fspath(home)], self._environment())
        path = os.pathsep.join((os.fspath(home / "bin"), os.environ.get("PATH", os.defpath)))
        env = self._environment(VIRTUAL_ENV=os.fspath(home), PATH=path)
        for one in self.job.needed:
            if first := _installation(one.setup, sorted(one.folder.iterdir())):
                given = {**variables(one.values), "VARIANT_FILES": os.fspath(one.folder)}
                self._set_up(build.name, shell(first), env | given, of=f"the files of {one.package}, which it needs,")
        self._set_up(build.name, shell(line), env | {"VARIANT_FILES": self._files()})
        return Interpreter(program=os.fspath(home / "bin" / "python"), home=os.fspath(home))

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
        if keep and (gone := expired(target.versions(), keep, now)):
            target.withdraw(gone, "")
            show(f"{counted(len(gone), 'night')} removed")
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
        needs = {"VARIANT_NEEDS": os.fspath(self.job.needs)} if self.job.needs else {}
        return {**self.job.environment, **needs}

    def _needed(self) -> list[Path]:
        """The folders of what it needs, and where their links lead."""
        every = [self.job.needs, *(one.folder.resolve() for one in self.job.needed)]
        return [folder for folder in every if folder]

    def _files(self) -> str:
        """The absolute path of the folder of the files; the commands run in the root of the repository."""
        return os.fspath((self.job.folder / FOLDER).absolute())

    def _commands(self) -> DeclaredCommands:
        if self.job.commands is None:
            raise wrong("packages", Code.COMMAND_MISSING, "the package of this variant declares no `command`")
        return self.job.commands


_ENGINES = ("docker", "podman")
_REMOVAL = 120.0
"""The time limit, in seconds, of ending a container that outlives its job."""


@contextmanager
def contained(image: str, root: Path, names: Iterable[str], read: Iterable[Path] = ()) -> Iterator[list[str]]:
    """The words before a program that run it in a container of `image`; none if that is ''.

    `root` is the folder that it sees, `read` are others that it may only read, and `names` are the variables that it
    takes from the environment. Raises InputError without an engine.
    """
    if not image:
        yield []
        return
    engine = next(filter(None, map(shutil.which, _ENGINES)), "")
    engine = engine or find_program(_ENGINES[0], install="install Docker or Podman: the build runs in a container")
    folder, name = root.resolve(), f"ci-runner-{uuid4().hex}"
    options = [f"--name={name}", f"--user={os.getuid()}:{os.getgid()}", f"--volume={folder}:{folder}"]
    options += [f"--volume={one}:{one}:ro" for one in read if not one.is_relative_to(folder)]
    options += ["--userns=keep-id"] if Path(engine).name == "podman" else []
    options += [f"--workdir={folder}", "--env=HOME=/tmp", *(f"--env={one}" for one in names)]
    try:
        yield [engine, "run", "--rm", "--init", *options, image]
    finally:  # the engine's program may have been ended without its container
        ask([engine, "rm", "--force", name], seconds=_REMOVAL)


_RELEASE = re.compile(r"3\.(?P<minor>[0-9]+)(?P<threads>t?)")
_TAG = re.compile(r"(?:cp|py)3(?P<minor>[0-9]*)")
_MOST = 1 << 20
"""The most bytes of metadata that are read."""


def check_wheels(variant: JoinedVariant, files: Iterable[Path]) -> None:
    """Raises StageError if a wheel among the files of a variant has another version, or is for another Python.

    If wheels of its package are among them, only those count: the others may be what it needs.
    """
    wheels = [path for path in files if path.suffix == ".whl"]
    own = [path for path in wheels if _plain(path.name.partition("-")[0]) == _plain(variant.package)]
    for path in own or wheels:
        for where, stated in _stated(variant.name, path) if variant.version else ():
            if _plain(stated) != _plain(variant.version):
                message = (
                    f"{path.name} is version {stated or 'unknown'} by its {where}, and {variant.version} is declared"
                )
                raise failure(variant.name, Code.VERSION_DIFFERS, message)
        if not _is_for(path, variant.python):
            message = f"{path.name} is not for Python {variant.python} by its name"
            raise failure(variant.name, Code.PYTHON_DIFFERS, message)


def _is_for(path: Path, python: str) -> bool:
    """Whether Python `python` (`3.13`, `3.14t`) installs the wheel at `path`; of other Pythons nothing is known."""
    release, words = _RELEASE.fullmatch(python), path.stem.split("-")
    if not release or len(words) not in {5, 6}:
        return True
    minor, threads = int(release["minor"]), release["threads"]
    for tag, abi in product(words[-3].split("."), words[-2].split(".")):
        if (named := _TAG.fullmatch(tag)) is None:
            continue
        first, own = int(named["minor"] or 0), tag == f"cp3{minor}"
        is_stable = (abi == "abi3" and not threads) or (abi == "none" and tag.startswith("py"))
        if (is_stable and first <= minor) or (own and abi in {"none", f"{tag}{threads}"}):
            return True
    return False


def _stated(name: str, path: Path) -> Iterator[tuple[str, str]]:
    """The versions that the wheel at `path` states."""
    words = path.name.removesuffix(".whl").split("-")
    yield "name", words[1] if len(words) in {5, 6} else ""  # PEP 427
    try:
        text = member_of(path, r"[^/]+\.dist-info/METADATA", _MOST)
    except OSError as error:
        raise failure(name, Code.VERSION_DIFFERS, f"{path.name} has no metadata that can be read: {error}") from None
    yield "metadata", Parser().parsestr(text, headersonly=True).get("Version", "")


def _plain(text: str) -> str:
    """A name or a version in one spelling: separators and cases differ (PEP 440, PEP 503)."""
    return re.sub(r"\.(?=[a-z])", "", re.sub(r"[-_.]+", ".", text.lower()))


_ARCHITECTURES = {
    "x86_64": "amd64",
    "aarch64": "arm64",
    "i686": "386",
    "armv7l": "arm/v7",
    "ppc64le": "ppc64le",
    "riscv64": "riscv64",
    "s390x": "s390x",
}
"""The architectures of platforms, as images state them (Go's GOARCH; OCI Image Format Specification, "Platform")."""
_SYSTEMS = {"linux": "linux", "windows": "windows"}


def platform_of(platform: str) -> str:
    """A platform (`aarch64-linux`) as images state it (`linux/arm64`); '' for one that images do not know."""
    machine, _, rest = platform.partition("-")
    architecture, system = _ARCHITECTURES.get(machine, ""), _SYSTEMS.get(rest.partition("-")[0], "")
    return f"{system}/{architecture}" if architecture and system else ""


def check_images(name: str, files: Iterable[Path], values: Mapping[str, str], needed: Iterable[NeededFiles]) -> None:
    """Raises StageError if an image among the files of the variant `name` is not whole, or not what was declared.

    With a platform in `values`, it is for that one alone. If images were gathered, it has all those of the packages
    that it has any of, by digest, and nothing else.
    """
    images = {path.name: _image(name, path) for path in files if path.name.endswith(SUFFIX)}
    declared = platform_of(values.get("platform", values.get("system", "")))
    gathered = _gathered(name, needed) if images else {}
    for file, image in images.items():
        if declared and {*image.platforms} != {declared}:
            message = f"{file} is for {' and '.join(sorted(image.platforms))}, and the variant is for {declared}"
            raise failure(name, Code.IMAGE_DIFFERS, message)
        own = {*image.platforms.values()}
        whole = {digest for digests in gathered.values() if own & digests for digest in digests}
        if gathered and own != whole:
            lacks, more = " and ".join(sorted(whole - own)), " and ".join(sorted(own - whole))
            message = "; ".join(
                [f"{file} has {more}, which was not gathered"] * bool(more)
                + [f"{file} lacks {lacks}, which was gathered with the rest"] * bool(lacks)
            )
            raise failure(name, Code.IMAGE_DIFFERS, f"{message}; join them with `ci-runner join-images`")


def _gathered(name: str, needed: Iterable[NeededFiles]) -> dict[str, set[str]]:
    """The digests of the images that were gathered, by package."""
    digests: dict[str, set[str]] = {}
    for one in needed:
        for path in sorted(one.folder.glob(f"*{SUFFIX}")) if one.gathered else ():
            digests.setdefault(one.package, set()).update(_image(name, path).platforms.values())
    return digests


def _image(name: str, path: Path) -> Image:
    try:
        return image_of(path)
    except OSError as error:
        raise failure(name, Code.IMAGE_DIFFERS, str(error)) from None
