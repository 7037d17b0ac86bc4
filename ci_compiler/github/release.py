"""A release on GitHub as the place of a package's files: a draft until all are uploaded, then published.

A draft is of one commit, its target, where publishing makes the tag. A newer commit begins it again.
Beside the files of a variant there are its software bill of materials, `VARIANT.cdx.json`, and a file with their
SHA-256 digests, `VARIANT.sha256`, which is uploaded last, so that it also says that they are all there.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from github.GitRelease import GitRelease
from github.GitReleaseAsset import GitReleaseAsset
from github.Repository import Repository

from ci_compiler.codes import Code
from ci_compiler.errors import failure
from ci_compiler.github.client import Answer, Client
from ci_compiler.outside import bytes_of
from ci_compiler.publishing.plan import HeldFile, HeldVersion, StagedVariant, Upload, release_of
from ci_compiler.publishing.target import Target
from ci_compiler.spec.publishers import GITHUB_RELEASE

if TYPE_CHECKING:
    from ci_compiler.plan.pipeline import Plan
    from ci_compiler.plan.records import Key

_UPLOADED = "uploaded"
"""The state of a whole asset; after a broken upload it is `starter` (GitHub Docs, "Releases")."""
_OF = " of "
"""What is between a file's name and its variant in the label of an asset, which the page of a release shows."""
_SUMS, _SBOM = ".sha256", ".cdx.json"
_WITHDRAWN = " (withdrawn)"
_HASH = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")


class GitHubRelease(Target):
    """The releases in the repository of `client`. Its methods raise GitHubError.

    `tags` spells their tags, with `{version}`, which is the same for all variants.
    """

    def __init__(self, client: Client, tags: str) -> None:
        self._client = client
        self._tags = tags

    def held(self, wanted: Sequence[Upload]) -> Mapping[str, HeldFile]:
        """The assets of the release; users see those of a published one. A draft of another commit is begun again."""
        release = self._release(wanted[0].version)
        if release is None or (release.draft and _commit(release) not in {"", wanted[0].commit}):
            return {}
        return {name: _held(release, asset) for name, asset in self._assets(release).items()}

    def put(self, file: Upload) -> None:
        """Uploads an asset, in place of what a broken upload left; the first of a commit begins the draft."""
        release = self._of_commit(self._release(file.version), file)
        self._clear(release, file.name)
        path = str(file.path)
        label = f"{file.name}{_OF}{file.variant}"
        self._call(f"upload {file.name}", lambda: release.upload_asset(path, label, name=file.name), again=False)

    def stage(self, wanted: Sequence[Upload]) -> None:
        """Uploads the digests of a variant's files. Raises StageError if another run removed some of them meanwhile."""
        release, name = self._release(wanted[0].version), f"{wanted[0].variant}{_SUMS}"
        held = self.held(wanted)
        gone = [file.name for file in wanted if file.name not in held or held[file.name].digest != file.digest]
        if release is None or gone:
            message = f"{' and '.join(gone)} was removed from the draft by the run of another commit; publish it again"
            raise failure(wanted[0].variant, Code.RELEASE_OTHER_COMMIT, message)
        if sbom := wanted[0].sbom:
            self._beside(release, f"{wanted[0].variant}{_SBOM}", bytes_of(sbom), "application/vnd.cyclonedx+json")
        text = "".join(f"{file.digest}  {file.name}\n" for file in wanted)
        self._beside(release, name, text.encode(), "text/plain")

    def _beside(self, release: GitRelease, name: str, content: bytes, kind: str) -> None:
        """Uploads a file that describes those of a variant, in place of an earlier one."""
        self._clear(release, name)

        def send() -> GitReleaseAsset:
            return release.upload_asset_from_memory(io.BytesIO(content), len(content), name, kind)

        self._call(f"upload {name}", send, again=False)

    def staged(self, version: str, variants: Collection[str]) -> Mapping[str, StagedVariant]:  # noqa: ARG002
        """All variants whose digests are there."""
        if (release := self._release(version)) is None:
            return {}
        variant = StagedVariant(_commit(release), shown=not release.draft)
        return {
            name.removesuffix(_SUMS): variant
            for name, asset in self._assets(release).items()
            if name.endswith(_SUMS) and asset.state == _UPLOADED
        }

    def finish(self, version: str, variants: Collection[str]) -> None:  # noqa: ARG002
        """Publishes the draft; a version with letters is a prerelease.

        Dates and versions decide which release is the latest one (`legacy`), not what is published last.
        """
        if (release := self._release(version)) and release.draft:
            early = any(map(str.isalpha, release_of(version)))
            self._update(release, name=release.tag_name, message=release.body or "", prerelease=early)

    def versions(self) -> Collection[HeldVersion]:
        """The versions of all published releases, which are of all variants."""
        shown = (version_in(self._tags, release.tag_name) for release in self._releases() if not release.draft)
        return [HeldVersion("", version) for version in shown if version]

    def remove_abandoned(self, before: datetime) -> int:
        """Deletes drafts of a commit whose last asset is that old; those that people made are of a branch."""
        drafts = [
            release
            for release in self._releases()
            if release.draft and _commit(release) and version_in(self._tags, release.tag_name)
        ]
        gone = 0
        for draft in drafts:
            uploaded = [asset.updated_at for asset in self._assets(draft).values()]
            if uploaded and max(uploaded) < before:
                self._call(f"delete the draft {draft.tag_name}", draft.delete_release)
                gone += 1
        return gone

    def withdraw(self, versions: Collection[HeldVersion], because: str) -> None:
        """Marks releases as withdrawn, in their titles and notes; without a reason, deletes them with their tags."""
        for release in map(self._release, {version.version for version in versions}):
            if release and because:
                name, notes = f"{release.tag_name}{_WITHDRAWN}", f"**Withdrawn:** {because}\n\n{release.body or ''}"
                self._update(release, name=name, message=notes, prerelease=True)
            elif release:
                tag = release.tag_name
                self._call(f"delete the release {tag}", release.delete_release)
                self._client.request(
                    f"delete the tag {tag}", "DELETE", f"git/refs/tags/{tag}", read=lambda _: True, absent=True
                )

    @cached_property
    def _repository(self) -> Repository:
        name = self._client.access.repository
        return self._client.call("read the repository", lambda: self._client.github.get_repo(name))

    def _tag(self, version: str) -> str:
        return self._tags.replace("{version}", release_of(version))

    def _releases(self) -> list[GitRelease]:
        return self._client.call("list the releases", lambda: list(self._repository.get_releases()))

    def _release(self, version: str) -> GitRelease | None:
        """The release of `version`, which may be a draft; a published one before all others."""
        every = [release for release in self._releases() if release.tag_name == self._tag(version)]
        return min(every, key=lambda release: (release.draft, release.id), default=None)

    def _of_commit(self, release: GitRelease | None, file: Upload) -> GitRelease:
        """The release of the commit that `file` was built from: a new draft, or one that had another target.

        What another commit left in it is deleted. Its notes stay, and so does what people attached to their own draft.
        """
        tag, commit = self._tag(file.version), file.commit
        if release and (not release.draft or _commit(release) == commit):
            return release
        self._require_tag(tag, file)
        if release is None:
            made = partial(self._repository.create_git_release, tag, tag, "", draft=True, target_commitish=commit)
            return self._call(f"draft {tag}", made, again=False)
        for asset in self._assets(release).values() if _commit(release) else ():
            self._call(f"delete {asset.name}", asset.delete_asset)
        title, notes = release.name or tag, release.body or ""
        moved = partial(release.update_release, title, notes, draft=True, target_commitish=commit)
        return self._call(f"draft {tag}", moved)

    def _require_tag(self, tag: str, file: Upload) -> None:
        """Raises StageError if the tag exists, at another commit than that of `file`."""
        at = self._object(tag, f"git/ref/tags/{tag}")
        if at.get("type") == "tag":  # an annotated one
            at = self._object(tag, f"git/tags/{at['sha']}")
        if at and at["sha"] != file.commit:
            message = f"the tag {tag} is at {at['sha']}, and this was built from {file.commit}; set a new version"
            raise failure(file.variant, Code.RELEASE_OTHER_COMMIT, message)

    def _object(self, tag: str, path: str) -> dict[str, str]:
        """What a reference or a tag points to; {} if there is none."""
        return self._client.request(f"read the tag {tag}", "GET", path, read=lambda answer: answer["object"], absent={})

    def _assets(self, release: GitRelease) -> dict[str, GitReleaseAsset]:
        every = self._client.call("list the assets", lambda: list(release.get_assets()))
        return {asset.name: asset for asset in every}

    def _clear(self, release: GitRelease, name: str) -> None:
        if asset := self._assets(release).get(name):
            self._call(f"delete {name}", asset.delete_asset)

    def _update(self, release: GitRelease, *, name: str, message: str, prerelease: bool) -> None:
        self._call(
            f"publish {release.tag_name}",
            lambda: release.update_release(name, message, draft=False, prerelease=prerelease, make_latest="legacy"),
        )

    def _call(self, what: str, ask: Callable[[], Answer], *, again: bool = True) -> Answer:
        return self._client.call(what, ask, write=True, again=again)


def sboms(client: Client, plan: Plan) -> Mapping[Key, str]:
    """The tag of the newest release with the SBOM of a variant, by branch and name. Raises GitHubError.

    Users see it, it is not withdrawn, and it is of the version that the branch states, if that states one.
    """
    packages = {name: one.command.publisher for name, one in plan.spec.packages.items() if one.command}
    publishers = {name: one for name, one in packages.items() if one and one.to == GITHUB_RELEASE}
    if not publishers:
        return {}

    def read(release: Mapping[str, Any]) -> tuple[str, set[str]]:
        is_shown = not release["draft"] and not str(release["name"]).endswith(_WITHDRAWN)
        return str(release["tag_name"]), {str(one["name"]) for one in release["assets"] if is_shown}

    def is_of(tag: str, branch: str, package: str) -> bool:
        stated = release_of(plan.spec.branches[branch].versions.get(package, ""))
        version = version_in(publishers[package].tags(package, branch), tag)
        return bool(version) and stated in {"", version}

    return {
        (cell.branch, variant.name): tag
        for tag, assets in reversed(list(client.pages("list the releases", "releases", "", read)))
        for cell in plan.judged.cells
        for variant in cell.variants
        if f"{variant.name}{_SBOM}" in assets and variant.package in publishers
        if is_of(tag, cell.branch, variant.package)
    }


def version_in(tags: str, tag: str) -> str:
    """The version that a tag spells, if `tags` spells it with `{version}`; '' for a tag of something else."""
    match = re.fullmatch(re.escape(tags).replace(r"\{version\}", "([0-9][0-9A-Za-z.-]*)"), tag)
    return match[1] if match else ""


def _held(release: GitRelease, asset: GitReleaseAsset) -> HeldFile:
    """What an asset is; its variant is known by the label that `put` gave it."""
    named, of, variant = (asset.label or "").partition(_OF)
    variant = variant if of and named == asset.name else ""
    if asset.state != _UPLOADED:
        return HeldFile("", shown=False, variant=variant)
    return HeldFile((asset.digest or "").removeprefix("sha256:"), not release.draft, _commit(release), variant)


def _commit(release: GitRelease) -> str:
    """The commit that a release is of; '' where its target is a branch, as in a draft that people made."""
    return release.target_commitish if _HASH.fullmatch(release.target_commitish) else ""
