"""A release on GitHub as the place of a package's files: a draft until all are uploaded, then published.

Beside the files of a variant there is a file with their SHA-256 digests, `VARIANT.sha256`. It is uploaded last, so that
it also says that they are all there.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property, partial

from github.GitRelease import GitRelease
from github.GitReleaseAsset import GitReleaseAsset
from github.Repository import Repository

from ci_compiler.github.client import Answer, Client
from ci_compiler.publishing.plan import HeldFile, HeldVersion, Upload, release_of

_UPLOADED = "uploaded"
"""The state of an asset that is whole; one of a broken upload is a `starter` (GitHub Docs, "Releases")."""
_SUMS = ".sha256"
_PREFIX = "v"


class GitHubRelease:
    """The releases in the repository of `client`, with tags such as `v1.4.0`. Its methods raise GitHubError.

    A tag that does not exist is made at `commit` when the release is published.
    """

    def __init__(self, client: Client, commit: str) -> None:
        self._client = client
        self._commit = commit

    def held(self, wanted: Sequence[Upload]) -> Mapping[str, HeldFile]:
        """The assets of the release; users see those of a published one."""
        if (release := self._release(wanted[0].version)) is None:
            return {}
        return {
            name: HeldFile((asset.digest or "").removeprefix("sha256:"), shown=not release.draft)
            if asset.state == _UPLOADED
            else HeldFile("", shown=False)
            for name, asset in self._assets(release).items()
        }

    def put(self, file: Upload) -> None:
        """Uploads an asset, in place of one that a broken upload left; the first makes the draft."""
        release = self._release(file.version) or self._draft(file.version)
        self._clear(release, file.name)
        path = str(file.path)
        self._call(f"upload {file.name}", lambda: release.upload_asset(path, name=file.name), again=False)

    def stage(self, wanted: Sequence[Upload]) -> None:
        """Uploads the digests of a variant's files."""
        release, name = self._release(wanted[0].version), f"{wanted[0].variant}{_SUMS}"
        if not release:
            return
        self._clear(release, name)
        text = "".join(f"{file.digest}  {file.name}\n" for file in wanted).encode()

        def send() -> GitReleaseAsset:
            return release.upload_asset_from_memory(io.BytesIO(text), len(text), name, "text/plain")

        self._call(f"upload {name}", send, again=False)

    def staged(self, version: str, variants: Collection[str]) -> Collection[str]:
        """The variants whose digests are there."""
        release = self._release(version)
        assets = self._assets(release) if release else {}
        return [one for one in variants if (asset := assets.get(f"{one}{_SUMS}")) and asset.state == _UPLOADED]

    def finish(self, version: str, variants: Collection[str]) -> None:  # noqa: ARG002
        """Publishes the draft; a version with letters is a prerelease."""
        if (release := self._release(version)) and release.draft:
            early = any(map(str.isalpha, release_of(version)))
            self._update(release, name=release.tag_name, message=release.body or "", prerelease=early)

    def unfinished(self, version: str, variant: str) -> bool:  # noqa: ARG002
        """False: all users see the same."""
        return False

    def versions(self) -> Collection[HeldVersion]:
        """The versions of all published releases, which are of all variants."""
        return [
            HeldVersion("", release.tag_name.removeprefix(_PREFIX))
            for release in self._releases()
            if release.tag_name.startswith(_PREFIX) and not release.draft
        ]

    def withdraw(self, versions: Collection[HeldVersion], because: str) -> None:
        """Marks releases as withdrawn, in their titles and notes; without a reason, deletes them with their tags."""
        for release in map(self._release, {version.version for version in versions}):
            if release and because:
                name, notes = f"{release.tag_name} (withdrawn)", f"**Withdrawn:** {because}\n\n{release.body or ''}"
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
        return f"{_PREFIX}{release_of(version)}"

    def _releases(self) -> list[GitRelease]:
        return self._client.call("list the releases", lambda: list(self._repository.get_releases()))

    def _release(self, version: str) -> GitRelease | None:
        """The release of `version`, which may be a draft; a published one before all others."""
        every = [release for release in self._releases() if release.tag_name == self._tag(version)]
        return min(every, key=lambda release: (release.draft, release.id), default=None)

    def _draft(self, version: str) -> GitRelease:
        tag = self._tag(version)
        made = partial(self._repository.create_git_release, tag, tag, "", draft=True, target_commitish=self._commit)
        return self._call(f"draft {tag}", made, again=False)

    def _assets(self, release: GitRelease) -> dict[str, GitReleaseAsset]:
        every = self._client.call("list the assets", lambda: list(release.get_assets()))
        return {asset.name: asset for asset in every}

    def _clear(self, release: GitRelease, name: str) -> None:
        if asset := self._assets(release).get(name):
            self._call(f"delete {name}", asset.delete_asset)

    def _update(self, release: GitRelease, *, name: str, message: str, prerelease: bool) -> None:
        self._call(
            f"publish {release.tag_name}",
            lambda: release.update_release(name, message, draft=False, prerelease=prerelease),
        )

    def _call(self, what: str, ask: Callable[[], Answer], *, again: bool = True) -> Answer:
        return self._client.call(what, ask, write=True, again=again)
