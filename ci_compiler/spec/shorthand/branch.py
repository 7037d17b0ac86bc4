"""The key of a branch that belongs to the short form of a matrix: `python`."""

from ci_compiler.spec.declare import declared, key
from ci_compiler.spec.forms import Python
from ci_compiler.spec.packages import Branch


@declared("branch", type="object")
class ShortBranch(Branch):
    """A git branch that carries recipes."""

    pythons: tuple[Python, ...] = key(
        "Python versions of this branch, in place of those of the matrix.",
        name="python",
        minItems=1,
        default=(),
        published=False,
        examples=[["3.11"]],
    )
