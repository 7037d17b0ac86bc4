"""Keys of the spec about a package that is built without recipes."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from ci_compiler.backends.command import SCRIPT, TOKEN
from ci_compiler.spec.axes import SettingRow, SettingRows, setting_rows
from ci_compiler.spec.declare import declared, form, key
from ci_compiler.spec.forms import LINE
from ci_compiler.spec.publishers import Publisher, publisher
from ci_compiler.spec.read import read

Line = Annotated[str, form(title="a shell command (one line)", minLength=1, maxLength=2000, pattern=LINE)]

InstallLine = Annotated[
    str,
    form(
        title="a shell command (one line, without backticks)",
        minLength=1,
        maxLength=2000,
        pattern=r"^[^\x00-\x1f\x7f`]+$",
    ),
]

FilePattern = Annotated[
    str,
    form(
        title="a pattern of files below the repository's root, without ..",
        pattern=r"^(?!/)(?!.*(^|/)\.\.(/|$))[A-Za-z0-9._*?+@/\[\]-]{1,200}$",
    ),
]

SourcePattern = Annotated[
    str,
    form(
        title="the path of a file or folder in the repository, where * and ** stand for names as in GitHub's filters",
        pattern=r"^(?!/)(?!.*(^|/)\.\.(/|$))[A-Za-z0-9._*/-]{1,200}$",
    ),
]


EnvironmentName = Annotated[
    str,
    form(
        "environment-name",
        title="the name of an environment variable that neither GitHub nor ci-runner sets",
        pattern="^(?!(VARIANT|GITHUB|RUNNER|ACTIONS|INPUT)_|PUBLISH_TOKEN$)[A-Za-z_][A-Za-z0-9_]{0,99}$",
    ),
]

SecretName = Annotated[
    str,
    form(
        title="the name of a secret, such as WHEELS_KEY, that neither GitHub nor ci-runner sets",
        pattern="^(?!(CI_COMPILER|VARIANT|GITHUB|RUNNER|ACTIONS|INPUT)_|RELEASE_TOKEN$)[A-Z][A-Z0-9]*(_[A-Z0-9]+)+$",
    ),
]

Image = Annotated[
    str,
    form(
        title="a container image by its digest (HOST/PATH@sha256:…)",
        pattern="^[a-z0-9][a-z0-9._/:-]{0,200}(:[A-Za-z0-9._-]+)?@sha256:[0-9a-f]{64}$",
    ),
]


@declared("container")
class ContainerRow(SettingRow):
    """A container image, and the cells whose build script runs in it."""

    value: Image = key("The image.")


def _images(value: str | list[Any]) -> tuple[ContainerRow, ...]:
    rows = [{"value": value}] if isinstance(value, str) else value
    return tuple(read(ContainerRow, one, index=index) for index, one in enumerate(rows))


@declared(minProperties=1)
class VersionRule:
    """Where the version of a package comes from, if it is not that of its branch, and what is added to it.

    A run decides it once, before it builds. The wheels that a build makes must have it, in their names and metadata.
    """

    command: Line = key(
        "A command that prints the version, in place of `versions` of the branch.",
        default="",
        examples=["python ci/version.py"],
    )
    tag: str = key(
        "How git tags spell the version, in place of `versions` of the branch: that of the nearest tag counts.",
        title="a text with {version}, such as v{version}",
        pattern=r"^[A-Za-z0-9._/+-]*\{version\}[A-Za-z0-9._/+-]*$",
        default="",
        examples=["v{version}"],
    )
    night: str = key(
        "The version of a run of the night.",
        title="a text with {version} and {date}",
        pattern=r"^\{version\}[A-Za-z0-9.+]*\{date\}[A-Za-z0-9.]*$",
        default="",
        examples=["{version}.dev{date}"],
    )
    local: tuple[SettingRow, ...] = key(
        "What follows a `+`: letters, digits and dots, and placeholders for the variant's values. Of several rows, the "
        "first that applies counts.",
        written=SettingRows,
        convert=setting_rows,
        default=(),
        published=False,
        examples=["@accelerator-tag@"],
    )


@declared()
class Command:
    """How a package is built, installed and published by commands of the repository, with `backend: command`.

    Every command runs in the root of the repository, with the values of the variant in its environment: `VARIANT_NAME`,
    `VARIANT_VERSION` and so on. `setup` and `publish` also get `VARIANT_FILES`, the folder of the built files. The
    build, `setup` and tests get `VARIANT_NEEDS`, which has a folder with the files of each needed package.
    """

    build: str = key(
        "The build script: an executable file of the repository, which is run without arguments.",
        title="the path of a file in the repository",
        pattern=f"^{SCRIPT}$",
        examples=["ci/build.sh"],
    )
    files: tuple[FilePattern, ...] = key(
        "Patterns of the files that the script makes. Their names must differ; they are the artifact of the build. In "
        "a build that makes several variants, placeholders such as `@name@` and `@python@` tell their files apart.",
        minItems=1,
        examples=[["dist/*.whl"]],
    )
    version: VersionRule | None = key(default=None)
    env: Mapping[str, tuple[SettingRow, ...]] = key(
        "Further variables of all commands and tests, by name. Of the rows of a variable, the first that applies "
        "counts; placeholders stand for the variant's values.",
        written=Mapping[EnvironmentName, SettingRows],
        convert=lambda value: {name: setting_rows(rows) for name, rows in value.items()},
        default={},
        published=False,
        examples=[{"SIMD_LEVEL": "@isa@", "CC": [{"when": {"python": "3.14"}, "value": "gcc-14"}]}],
    )
    container: tuple[ContainerRow, ...] = key(
        "The image in which the build script runs, by Docker or Podman on the machine that builds. Of several rows, "
        "the first that applies counts.",
        title="a container image by its digest, or a list of {value, when}",
        written=Image | Annotated[tuple[ContainerRow, ...], form(minItems=1)],
        convert=_images,
        default=(),
        published=False,
        examples=[f"quay.io/pypa/manylinux_2_28_x86_64@sha256:{64 * '0'}"],
    )
    sources: tuple[SourcePattern, ...] = key(
        "Files and folders that the build reads; a change of one of them rebuilds every variant. Left out: everything "
        "but the repository's `.github`.",
        minItems=1,
        default=(),
        published=False,
        examples=[["src", "ci/build.sh", "pyproject.toml"]],
    )
    fetch: Line = key(
        "The command that fetches the published files into `VARIANT_FILES`, an empty folder, for the builds and tests "
        "of what needs the package. Left out: a run that builds a variant builds what it needs as well.",
        default="",
        examples=['pip download --no-deps --dest "$VARIANT_FILES" my-package=="$VARIANT_VERSION"'],
    )
    install: InstallLine = key(
        "The command with which a user installs a variant; `@name@`, `@version@` and the variant's other values are "
        "filled in.",
        examples=["pip install my-package==@version@ --index-url https://packages.example.org/@cuda@/simple"],
    )
    setup: Line = key(
        "The command that installs the files for a test, in a virtual environment of the variant's Python. Left out: "
        "`pip install` of the wheels among them.",
        default="",
        examples=['pip install --find-links "$VARIANT_FILES" my-package=="$VARIANT_VERSION"'],
    )
    publish: str | Publisher = key(
        "The command that publishes the files; `secrets`, by default PUBLISH_TOKEN, are in its environment. Or a place "
        "that ci-runner publishes to by itself.",
        title="a shell command (one line), or a mapping with `to`",
        written=Line | Publisher,
        convert=publisher,
        examples=['TWINE_PASSWORD="$PUBLISH_TOKEN" twine upload "$VARIANT_FILES"/*'],
    )
    secrets: tuple[SecretName, ...] = key(
        "The secrets of GitHub's environment that `publish` and `published` get as variables. For a bucket: one, as "
        "`ACCESS-KEY-ID:SECRET-ACCESS-KEY`, or two, the id and the secret of its key. For a registry `USER:PASSWORD`, "
        "or these two. `[]`: publishing needs none.",
        maxItems=10,
        uniqueItems=True,
        default=(TOKEN,),
        published=False,
        examples=[["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"]],
    )
    published: Line = key(
        "A command that succeeds if the variant's version is published already. Left out: publishing always runs.",
        default="",
        examples=['pip download --no-deps --dest /tmp my-package=="$VARIANT_VERSION"'],
    )

    @property
    def publisher(self) -> Publisher | None:
        """The ready publisher; None if a command publishes."""
        return self.publish if isinstance(self.publish, Publisher) else None

    @property
    def is_whole(self) -> bool:
        """Whether all variants of the package are published together."""
        return bool(self.publisher and self.publisher.is_whole)

    @property
    def required_secrets(self) -> tuple[str, ...]:
        """The secrets without which publishing fails: those of a ready publisher, and those of a name of their own."""
        takes_login = bool(self.publisher and self.publisher.takes_login)
        return self.secrets if takes_login or self.secrets != (TOKEN,) else ()

    @property
    def rows(self) -> Iterator[tuple[tuple[str | int, ...], SettingRow]]:
        """What depends on the cell: each row of `env`, `container` and `version`, and its path below the command."""
        for name, rows in self.env.items():
            yield from ((("env", name, row.index), row) for row in rows)
        yield from ((("container", row.index), row) for row in self.container)
        if self.version:
            yield from ((("version", "local", row.index), row) for row in self.version.local)
