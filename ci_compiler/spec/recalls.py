"""The key of the spec for variants that were published and turned out wrong."""

from ci_compiler.spec.declare import declared, key
from ci_compiler.spec.forms import BranchNames, PackageVersion


@declared()
class Recall:
    """Why a published variant must not be installed. It ends when the entry is removed, or the version changes."""

    because: str = key(
        "What is wrong with it, in a few words.",
        title="one line of text, without braces",
        pattern=r"^[^\x00-\x1f\x7f{}]+$",
        maxLength=200,
        examples=["its convolutions return NaN on this GPU"],
    )
    branches: BranchNames = key("The branches whose build is recalled. Left out: every branch.", default=())
    versions: tuple[PackageVersion, ...] = key(
        "The versions of the package that are recalled. Left out: every version.",
        minItems=1,
        default=(),
        examples=[["2.8.0"]],
    )

    def concerns(self, branch: str, version: str) -> bool:
        """Whether the build of `version` on `branch` is recalled."""
        return (not self.branches or branch in self.branches) and (not self.versions or version in self.versions)
