"""A release on GitHub: a draft until all variants are there, an upload that broke off, a withdrawal."""

from __future__ import annotations

import json
import re
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM
from ci_compiler.errors import StageError
from ci_compiler.github.errors import GitHubError
from ci_compiler.github.release import GitHubRelease, sboms
from ci_compiler.plan.pipeline import plan
from ci_compiler.publishing.plan import HeldVersion, Nights, StagedVariant, expired
from ci_compiler.publishing.target import publish, upload
from tests.backends import wheel as fastpath
from tests.backends.wheel import TAG
from tests.checkers.tools import require
from tests.publishing.places import COMMIT, wheel
from tests.specs import spec_of

from .state import REPOSITORY, TOKEN, Fault, GitHub
from .talk import talk

VERIFY = Path(__file__).parents[2] / ".github/docs/publish.md"
NAMES = ["fastpath-cpu", "fastpath-sm90"]


def quiet(_: str) -> None:
    pass


def test_a_release_is_a_draft_until_every_variant_is_there(github: GitHub, tmp_path: Path) -> None:
    target = GitHubRelease(talk(github).client, "v{version}")
    files = [wheel(tmp_path / name, f"1.4.0+{name[9:]}", variant=name) for name in NAMES]
    (sbom := tmp_path / "sbom.cdx.json").write_text("{}", "utf-8")
    files[1] = files[1]._replace(sbom=sbom)
    github.cut_upload = files[0].name
    with pytest.raises(GitHubError, match="502"):
        upload(target, files[:1], quiet)
    said: list[str] = []
    upload(target, files[:1], said.append)
    assert said == [f"{files[0].name}: uploaded again"]
    assert target.staged("1.4.0", NAMES) == {NAMES[0]: StagedVariant(COMMIT, shown=False)}
    [release] = github.releases.values()
    assert (release["tag_name"], release["draft"]) == ("v1.4.0", True)
    assert [*target.versions()] == []
    upload(target, files[1:], quiet)
    target.finish("1.4.0+cpu", target.staged("1.4.0", NAMES))
    assert (release["draft"], release["prerelease"]) == (False, False)
    assert sorted(asset["name"] for asset in release["assets"]) == sorted(
        [*(file.name for file in files), *(f"{name}.sha256" for name in NAMES), f"{NAMES[1]}.cdx.json"]
    )
    assert [*GitHubRelease(talk(github).client, "fastpath-{version}").versions()] == []
    assert [*target.versions()] == [HeldVersion("", "1.4.0")]
    publish(target, files[:1], said.append)
    assert said[-1] == f"{files[0].name}: published already"
    with pytest.raises(StageError, match="published already, with another content, from this commit"):
        publish(target, [files[0]._replace(digest="a1")], quiet)
    target.withdraw([HeldVersion("", "1.4.0")], "wrong results")
    assert (release["name"], release["prerelease"]) == ("v1.4.0 (withdrawn)", True)
    assert release["body"].startswith("**Withdrawn:** wrong results")
    # GitHub's documentation names the state, and its description of the API lacks it.
    github.problems = [problem for problem in github.problems if "'starter' is not one of" not in problem]


@pytest.mark.parametrize("text", ["", "AVX-512"], ids=["equal bytes", "other bytes"])
@pytest.mark.parametrize("is_shown", [False, True], ids=["draft", "release"])
def test_a_file_of_another_variant_is_kept_and_that_variant_is_named(
    text: str, is_shown: bool, github: GitHub, tmp_path: Path
) -> None:
    target = GitHubRelease(talk(github).client, "v{version}")
    one = wheel(tmp_path / "a", variant="fastpath-avx2")
    two = wheel(tmp_path / "b", variant="fastpath-avx512", text=text)
    upload(target, [one], quiet)
    if is_shown:
        target.finish("1.4.0", [one.variant])
    kept = dict(github.contents)
    with pytest.raises(StageError, match=f"^fastpath-avx512: {one.name}: the file of fastpath-avx2 has the same name;"):
        upload(target, [two], quiet)
    assert github.contents == kept
    assert [*target.staged("1.4.0", [])] == ["fastpath-avx2"]
    upload(target, [one], quiet)  # its own files are no other variant's


def test_the_command_of_the_documents_checks_the_files_of_a_release(github: GitHub, tmp_path: Path) -> None:
    [command] = re.findall(r"^shasum --algorithm 256 (.*?) +# or sha256sum", VERIFY.read_text("utf-8"), re.MULTILINE)
    publish(GitHubRelease(talk(github).client, "v{version}"), [wheel(tmp_path / "built", variant=NAMES[0])], quiet)
    (folder := tmp_path / "fetched").mkdir()
    for name, content in github.contents.items():
        (folder / name).write_bytes(content)
    words = [require("sha256sum"), *command.replace("VARIANT", NAMES[0]).split()]
    assert subprocess.run(words, cwd=folder, capture_output=True, check=False).returncode == 0
    [file] = folder.glob("*.whl")
    file.write_bytes(file.read_bytes()[:-1])
    assert subprocess.run(words, cwd=folder, capture_output=True, check=False).returncode == 1


def test_nights_expire_and_releases_stay(github: GitHub, tmp_path: Path) -> None:
    target = GitHubRelease(talk(github).client, "v{version}")
    for version in ("1.4.0", "1.5.0.dev20261122", "1.5.0.dev20261123"):
        publish(target, [wheel(tmp_path / version, version)], quiet)
    keep = Nights(pattern="{version}.dev{date}", most=1)
    target.withdraw(expired(target.versions(), keep, datetime(2026, 11, 23, tzinfo=UTC)), "")
    assert [release["tag_name"] for release in github.releases.values()] == ["v1.4.0", "v1.5.0.dev20261123"]
    assert github.deleted_tags == ["tags/v1.5.0.dev20261122"]
    assert github.problems == []


def test_a_draft_is_of_one_commit(github: GitHub, tmp_path: Path) -> None:
    target, newer = GitHubRelease(talk(github).client, "v{version}"), "d" * 40
    old = wheel(tmp_path / "a", "1.4.0+cpu", variant=NAMES[0])
    upload(target, [old], quiet)
    [release] = github.releases.values()
    release["body"] = "Notes"
    new = wheel(tmp_path / "b", "1.4.0+sm90", variant=NAMES[1], commit=newer)
    upload(target, [new], quiet)
    assert target.staged("1.4.0", NAMES) == {NAMES[1]: StagedVariant(newer, shown=False)}
    other = new._replace(commit="e" * 40)
    assert target.held([other]) == {}, "it is uploaded again, although it is the same"
    with pytest.raises(StageError, match="was removed from the draft by the run of another commit"):
        target.stage([old])
    assert (release["target_commitish"], release["body"], release["draft"]) == (newer, "Notes", True)
    github.tags["v1.5.0"] = newer
    with pytest.raises(StageError, match=f"the tag v1.5.0 is at {newer}, and this was built from {COMMIT}"):
        upload(target, [wheel(tmp_path / "c", "1.5.0")], quiet)
    assert github.problems == []


def test_a_draft_that_was_never_published_ends(github: GitHub, tmp_path: Path) -> None:
    target = GitHubRelease(talk(github).client, "v{version}")
    for version in ("1.4.0", "1.5.0", "1.6.0"):
        upload(target, [wheel(tmp_path / version, version)], quiet)
    by_hand, shown, _ = github.releases.values()
    by_hand["target_commitish"] = "main"
    shown["draft"] = False
    assert target.remove_abandoned(datetime(2012, 1, 1, tzinfo=UTC)) == 0
    assert target.remove_abandoned(datetime(2100, 1, 1, tzinfo=UTC)) == 1
    assert [*github.releases.values()] == [by_hand, shown]


def declaring(**place: str) -> dict[str, Any]:
    """The spec of a package that is released on GitHub."""
    declared = fastpath.spec(publish={"to": "github-release", **place}, files=["dist/*"])
    del declared["packages"]["fastpath"]["command"]["published"]
    return declared


def test_the_sbom_of_a_variant_is_in_the_newest_release_of_its_version_that_users_see(
    github: GitHub, tmp_path: Path
) -> None:
    first, second = (f"fastpath-{TAG}-cpu-{isa}" for isa in ("avx", "avx2"))
    (sbom := tmp_path / "sbom.cdx.json").write_text("{}", "utf-8")
    declared = declaring(tag="{package}/v{version}")
    decided = plan(spec_of(declared))
    client = talk(github).client
    target = GitHubRelease(client, "fastpath/v{version}")

    def put(version: str, variant: str, *, shown: bool = True, has: bool = True) -> None:
        file = wheel(tmp_path / f"{version}{variant}", f"{version}+{variant[-4:].strip('-')}", variant=variant)
        (publish if shown else upload)(target, [file._replace(sbom=sbom if has else None)], quiet)

    assert sboms(client, decided) == {}
    put("1.4.0", first)
    put("1.4.0", second, has=False)
    put("1.5.0", second)
    put("1.6.0", first, shown=False)
    assert sboms(client, decided) == {("main", first): "fastpath/v1.4.0"}
    declared["branches"]["main"]["versions"] = {}
    command = declared["packages"]["fastpath"]["command"]
    command["version"] = {"command": "ci/version"}
    put("1.4.1", first)
    github.releases = dict(reversed(github.releases.items()))  # GitHub lists the newest first
    found = sboms(client, plan(spec_of(declared)))
    assert found == {("main", first): "fastpath/v1.4.1", ("main", second): "fastpath/v1.5.0"}
    target.withdraw([HeldVersion("", "1.5.0")], "wrong results")
    assert sboms(client, plan(spec_of(declared))) == {("main", first): "fastpath/v1.4.1"}
    assert github.problems == []


def test_nobody_asks_for_releases_where_no_package_has_one(github: GitHub) -> None:
    assert sboms(talk(github).client, plan(spec_of(fastpath.spec()))) == {}
    assert github.asked == []


@pytest.mark.parametrize("fails", [False, True])
def test_the_page_has_what_github_says_of_releases(
    github: GitHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], fails: bool
) -> None:
    declared = declaring()
    name = f"fastpath-{TAG}-cpu-avx2"
    (sbom := tmp_path / "sbom.cdx.json").write_text("{}", "utf-8")
    publish(
        GitHubRelease(talk(github).client, "v{version}"), [wheel(tmp_path, variant=name)._replace(sbom=sbom)], quiet
    )
    github.faults += [Fault(404, path="/releases")] if fails else []
    for key, value in {"GITHUB_API_URL": github.url, "GITHUB_TOKEN": TOKEN, "GITHUB_REPOSITORY": REPOSITORY}.items():
        monkeypatch.setenv(key, value)
    (tmp_path / "spec.json").write_text(json.dumps(declared), "utf-8")
    options = ["--status", "--root", str(tmp_path), "--spec", str(tmp_path / "spec.json")]
    assert run(PROGRAM, ["site", str(tmp_path / "site"), *options]) == 0
    text = (tmp_path / "site/index.html").read_text("utf-8")
    assert ('"sboms":{"fastpath":"v1.4.0"}' in text) is not fails
    assert ("the page does not show the software bills of materials" in capsys.readouterr().err) is fails
