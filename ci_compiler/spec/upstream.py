"""Keys of the spec about releases of other software: upstreams of packages, pins of actions, `update.yml`."""

from typing import Annotated

from ci_compiler.spec.declare import declared, form, key
from ci_compiler.spec.forms import Commit, RepositoryName, Word
from ci_compiler.spec.triggers import Days

ActionName = Annotated[
    str,
    form("action-name", title="an action (OWNER/NAME)", pattern="^[A-Za-z0-9-]{1,39}/[A-Za-z0-9._-]{1,100}$"),
]


@declared()
class Upstream:
    """Where `ci-compile update` finds the releases of a package. PyTorch, TorchVision and TorchAudio need none."""

    repository: RepositoryName = key(
        "The GitHub repository whose tags are the releases.", examples=["vllm-project/vllm"], default=""
    )
    tags: str = key(
        "The form of a release's tag.",
        title="a tag with @version@ in it",
        pattern=r"^[A-Za-z0-9._/-]{0,60}@version@[A-Za-z0-9._-]{0,40}$",
        default="v@version@",
    )
    index: Word = key(
        "The project in the package index at PIP_INDEX_URL. Releases that were yanked there are not taken.",
        examples=["vllm"],
        default="",
    )
    submodules: bool = key("Whether a source needs the repository's submodules.", default=False)
    line: int = key(
        "How many numbers of its version a branch keeps: with 2, it goes from 2.9.1 to 2.9.2 and not to 2.10.0.",
        title="a number from 0 to 3",
        minimum=0,
        maximum=3,
        default=2,
    )


@declared()
class ActionPin:
    """The release of an action that compiled workflows use."""

    tag: Word = key("The tag of the release, for readers.")
    commit: Commit = key("The commit of that tag.")


@declared()
class Update:
    """The workflow `update.yml`, which opens a pull request with newer releases.

    Its environment `sync` holds the key of a GitHub App, since a pull request of the token of GitHub Actions starts no
    checks.
    """

    days: Days = key(
        "Days of the week on which it looks for releases.",
        examples=[["mon"]],
    )
