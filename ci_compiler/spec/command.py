"""Keys of the spec about a package that is built without recipes."""

from typing import Annotated

from ci_compiler.backends.command import SCRIPT
from ci_compiler.spec.declare import declared, form, key
from ci_compiler.spec.forms import LINE

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
        published=False,
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
        published=False,
        examples=['pip install --find-links "$VARIANT_FILES" my-package=="$VARIANT_VERSION"'],
    )
    publish: Line = key(
        "The command that publishes the files; the publishing secret is in its environment as PUBLISH_TOKEN.",
        examples=['TWINE_PASSWORD="$PUBLISH_TOKEN" twine upload "$VARIANT_FILES"/*'],
    )
    published: Line = key(
        "A command that succeeds if the variant's version is published already. Left out: publishing always runs.",
        default="",
        published=False,
        examples=['pip download --no-deps --dest /tmp my-package=="$VARIANT_VERSION"'],
    )
