"""Keys of the spec about what proves a package: a file for its interpreter, or a program with an expected answer."""

from typing import Annotated

from ci_compiler.backends.command import SCRIPT
from ci_compiler.spec.declare import declared, form, key
from ci_compiler.spec.forms import LINE

ScriptPath = Annotated[str, form(title="the path of a file in the repository", pattern=f"^{SCRIPT}$")]

ProgramLine = Annotated[
    str,
    form(
        title="a program and its arguments (one line; the program is a path inside the package)",
        pattern=r"^(?![/~-])(?!\S*\.\.)[^\x00-\x1f\x7f]{1,500}$",
    ),
]

Expression = Annotated[str, form(title="a regular expression (one line)", minLength=1, maxLength=500, pattern=LINE)]


@declared()
class SmokeTest:
    """What proves a package: either `python` or `run`."""

    python: ScriptPath = key(
        "A Python file of the repository, which the built interpreter runs; the package passes if it ends without an "
        "error.",
        default="",
        published=False,
        examples=["tests/smoke.py"],
    )
    run: ProgramLine = key(
        "A program of the package, by its path below the package's root, with arguments; the package passes if it "
        "ends with status 0 and `expect` matches.",
        default="",
        published=False,
        examples=["bin/llama-cli --version"],
    )
    expect: Expression = key(
        "A regular expression that must match somewhere in what `run` prints; `@version@` and the variant's other "
        "values are filled in. Left out: the status alone decides.",
        default="",
        published=False,
        examples=["version: @version@"],
    )


@declared()
class Smoke(SmokeTest):
    """What proves a package, in place of an import: either `python` or `run`, for every test stage or for one kind."""

    cpu: SmokeTest | None = key("What proves it in a stage without a GPU.", default=None, published=False)
    gpu: SmokeTest | None = key("What proves it in a stage on a GPU.", default=None, published=False)

    def on(self, *, gpu: bool) -> SmokeTest | None:
        """What proves the package in a stage with or without a GPU; None if nothing is declared for it."""
        own = self.gpu if gpu else self.cpu
        return own or (self if self.python or self.run else None)
