"""Keys of the spec about ready publishers, which take the place of a publishing command."""

from typing import Annotated, Any, Literal

from ci_compiler.spec.declare import declared, form, key
from ci_compiler.spec.read import read

S3 = "s3://"
"""How the address of a bucket begins: `s3://BUCKET/PREFIX`."""

WHEEL_INDEX = "wheel-index"
GITHUB_RELEASE = "github-release"
TRUSTED = "trusted-publishing"
REGISTRY = "registry"

_URLS = {
    WHEEL_INDEX: "must be an absolute folder or s3://BUCKET/PREFIX",
    GITHUB_RELEASE: "is not needed: the release is in this repository",
    TRUSTED: "must be the http or https address that takes uploads",
    REGISTRY: "must be the http or https address of the registry, and the path of the repository in it",
}

RELEASE_TOKEN = "RELEASE_TOKEN"  # noqa: S105
"""The environment variable with the token of the workflow, for a release on GitHub."""

Address = Annotated[str, form(title="an http or https address", pattern=r"^https?://[^\s\x00-\x1f\x7f\"'`<>]+$")]


@declared(minProperties=1)
class Retention:
    """How long nights are kept, and uploads that no release was completed with.

    The last night of each variant always stays, and so does every release.
    """

    nights: Annotated[str, form(title="a number of days, such as 14d", pattern="^[1-9][0-9]{0,3}d$")] = key(
        "How many days a night is kept.", default="", examples=["14d"]
    )
    most: int = key(
        "The most nights of a variant; with 1, a night replaces the night before.",
        title="a number of nights",
        minimum=1,
        maximum=1000,
        default=0,
        published=False,
    )

    uploads: Annotated[
        str, form(title="36 days or more, such as 40d", pattern="^(3[6-9]|[4-9][0-9]|[1-9][0-9]{2,3})d$")
    ] = key(
        "How many days files are kept that users never saw, as their release was not completed.",
        default="40d",
    )

    @property
    def days(self) -> int:
        """The number of days that a night is kept; 0 for no limit."""
        return int(self.nights.removesuffix("d") or 0)

    @property
    def upload_days(self) -> int:
        """The number of days that an upload is kept."""
        return int(self.uploads.removesuffix("d"))


@declared()
class Publisher:
    """Where the files are published, without a command: an index, a release on GitHub, or a registry of images."""

    to: Literal["wheel-index", "github-release", "trusted-publishing", "registry"] = key("The kind of place.")
    url: str = key(
        "The place: for `wheel-index` a folder or `s3://BUCKET/PREFIX`, in which placeholders stand for the variant's "
        "values; for `trusted-publishing` the address that takes uploads; for `registry` that of the repository, "
        "`https://HOST/PATH`, also with placeholders. `github-release` has none.",
        title="an absolute folder, s3://BUCKET/PREFIX, or an http or https address",
        pattern=r"^(/|s3://[a-z0-9]|https?://)[^\s\x00-\x1f\x7f\"'`<>{}$]+$",
        default="",
        examples=["s3://wheels/@accelerator-tag@"],
    )
    endpoint: Address = key("The address of S3-compatible storage. Left out: that of Amazon.", default="")
    region: Annotated[str, form(title="a region", pattern="^[a-z0-9-]{1,50}$")] = key(
        "The region of the bucket.", default="us-east-1"
    )
    index: Address = key(
        "For `trusted-publishing`, the address of the simple index that shows what was uploaded.", default=""
    )
    tag: str = key(
        "For `github-release`, how the tag of a release is spelled. Two packages never share one.",
        title="a text with {version}, and with {package} or {branch} if you like, such as {package}-v{version}",
        pattern=r"^(?=.*\{version\})(?!.*\{version\}.*\{version\})"
        r"([A-Za-z0-9_/+.-]|\{package\}|\{branch\}|\{version\})+$",
        default="v{version}",
        published=False,
        examples=["{package}-v{version}"],
    )
    image_tags: tuple[
        Annotated[
            str,
            form(
                title="a tag of an image, with {version} or placeholders for the variant's values",
                pattern=r"^([A-Za-z0-9_.-]|@[a-z][a-z0-9_-]*@|\{version\})+$",
            ),
        ],
        ...,
    ] = key(
        "For `registry`, the tags of the image. The first one has {version}, the version without its local part, and "
        "keeps its image; one without {version} moves to what is published last.",
        minItems=1,
        default=("{version}",),
        published=False,
        examples=[["@accelerator-tag@-{version}", "@accelerator-tag@"]],
    )
    whole: bool = key(
        "Whether the files of all variants of the package are one release: they are uploaded first, and shown only if "
        "each variant passed and was uploaded. A release on GitHub always is.",
        default=False,
    )
    retention: Retention | None = key(default=None)

    @property
    def problem(self) -> tuple[str, str]:
        """The key that does not fit the kind of place, and why; '' if all do."""
        local, trusted = self.url.startswith(("/", S3)), self.to == TRUSTED
        remote, named = trusted or self.to == REGISTRY, self.image_tags != ("{version}",)
        checks = {
            "url": (
                local if self.to == WHEEL_INDEX else bool(self.url) == remote and not local and self._has_path,
                _URLS[self.to],
            ),
            "index": (bool(self.index) == trusted, f"is what `{TRUSTED}` needs, and nothing else has"),
            "tag": (self.to == GITHUB_RELEASE or self.tag == "v{version}", f"is only for `{GITHUB_RELEASE}`"),
            "image-tags": (
                "{version}" in self.image_tags[0] and (self.to == REGISTRY or not named),
                f"is only for `{REGISTRY}`, and the first has {{version}}",
            ),
            "endpoint": (not self.endpoint or self.is_bucket, "is only for a bucket"),
            "whole": (
                not self.whole or not (trusted or "@" in self.url),
                "is impossible where a file is shown at once, or `url` differs between variants",
            ),
            "retention": (not self.retention or not trusted, "is impossible: an index server removes no files"),
        }
        return next(((name, why) for name, (is_right, why) in checks.items() if not is_right), ("", ""))

    def tags(self, package: str, branch: str) -> str:
        """The tags of the releases of a package of a branch, with `{version}`; '' where there are none."""
        known = self.tag.replace("{package}", package).replace("{branch}", branch)
        return known if self.to == GITHUB_RELEASE else ""

    @property
    def is_bucket(self) -> bool:
        """Whether it is S3-compatible storage, which takes the key of a bucket."""
        return self.url.startswith(S3)

    @property
    def _has_path(self) -> bool:
        """Whether the address of a registry also names the repository."""
        return self.to != REGISTRY or bool(self.url.partition("://")[2].partition("/")[2])

    @property
    def takes_login(self) -> bool:
        """Whether it takes a key or a login: one secret, or its two parts."""
        return self.is_bucket or self.to == REGISTRY

    @property
    def is_whole(self) -> bool:
        """Whether all variants are published together."""
        return self.whole or self.to == GITHUB_RELEASE


def publisher(value: str | dict[str, Any]) -> str | Publisher:
    """A publishing command, or the publisher that a mapping describes."""
    return value if isinstance(value, str) else read(Publisher, value)
