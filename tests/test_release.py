"""The release: built offline from what git holds; the wheel alone does the main job in an empty environment."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import Message
from email.parser import BytesParser
from pathlib import Path

import pytest

from ci_compiler import __version__
from ci_compiler.documents.site.page import NAME, page
from ci_compiler.files.compiled_by import compiled_by
from ci_compiler.plan.pipeline import plan
from ci_compiler.recipes.render import recipes
from ci_compiler.runner.deployment.kinds import deployment
from ci_compiler.spec.build import bundled_spec
from ci_compiler.spec.schema import schema_text
from ci_compiler.sync.compiled import compile_files
from tests.checkers import require

ROOT = Path(__file__).parents[1]
DEVELOPERS = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "CI_COMPILER_TOOLS")
OFFLINE = {name: value for name, value in os.environ.items() if name not in DEVELOPERS} | {"PIP_NO_INDEX": "1"}


def command(*words: str | Path, cwd: Path) -> str:
    """The output of a program; if it fails, the error contains the output."""
    done = subprocess.run(words, cwd=cwd, env=OFFLINE, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


def export(folder: Path) -> Path:
    """A copy of the files that git has or would add, without anything else in the checkout."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout: what belongs to the release is what git holds")
    listed = command(require("git"), "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT)
    for name in filter(None, listed.split("\0")):
        source, target = ROOT / name, folder / name
        if source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read_bytes())
            target.chmod(source.stat().st_mode & 0o777)
    return folder


def build(source: Path, target: str, into: Path) -> Path:
    """The distribution of the kind `target` that the build backend makes from `source`."""
    command(sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", into, cwd=source)
    (made,) = into.iterdir()
    return made


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """The files of a release, and the tree that they were made from."""

    source: Path
    wheel: Path
    sdist: Path

    def metadata(self) -> Message:
        """The wheel's metadata."""
        with zipfile.ZipFile(self.wheel) as archive:
            return BytesParser().parsebytes(archive.read(f"ci_compiler-{__version__}.dist-info/METADATA"))


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    made = tmp_path_factory.mktemp("release")
    source = export(made / "source")
    return Release(
        source=source, wheel=build(source, "wheel", made / "wheel"), sdist=build(source, "sdist", made / "s")
    )


@pytest.fixture(scope="module")
def scripts(release: Release, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with only the wheel; its dependencies come from the environment of the tests."""
    environment = tmp_path_factory.mktemp("installed") / "environment"
    command(sys.executable, "-m", "venv", "--without-pip", environment, cwd=environment.parent)
    python = environment / "bin/python"
    pip = (sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check")
    command(*pip, "install", "--no-deps", "--no-cache-dir", release.wheel, cwd=environment.parent)
    (packages,) = environment.glob("lib/python*/site-packages")
    paths = dict.fromkeys(sysconfig.get_path(name) for name in ("purelib", "platlib"))
    # Folders named in a .pth file have their own .pth files passed over: an editable install here stays unseen.
    (packages / "dependencies.pth").write_text("".join(f"{path}\n" for path in paths), "utf-8")
    where = command(python, "-c", "import ci_compiler; print(ci_compiler.__file__)", cwd=environment.parent)
    assert Path(where.strip()).is_relative_to(environment)
    return python.parent


@pytest.mark.slow
def test_the_wheel_contains_every_file_of_the_package_and_nothing_else(release: Release) -> None:
    package = {path.relative_to(release.source).as_posix() for path in release.source.glob("ci_compiler/**/*")}
    held = {name for name in package if (release.source / name).is_file()}
    images = (path for path in release.source.glob("runner-images/**/*") if path.is_file())
    shown = (path.relative_to(release.source / "runner-images").as_posix() for path in images)
    held |= {f"ci_compiler/runner_images/{name}" for name in shown if name != "archives/.gitignore"}
    with zipfile.ZipFile(release.wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert names == held


def test_the_sdist_makes_the_same_wheel(release: Release, tmp_path: Path) -> None:
    command(require("tar"), "-xzf", release.sdist, cwd=tmp_path)
    (unpacked,) = tmp_path.iterdir()
    tops = {"ci_compiler", "tests", "runner-images", ".github", "README.md", "LICENSE", "pyproject.toml"}
    assert {path.name for path in unpacked.iterdir()} == {*tops, "PKG-INFO", ".gitignore"}
    assert build(unpacked, "wheel", tmp_path / "again").read_bytes() == release.wheel.read_bytes()


def test_the_metadata_names_version_licence_and_places(release: Release) -> None:
    metadata = release.metadata()
    assert metadata["Version"] == __version__
    assert metadata["License-Expression"] == "MIT"
    assert metadata["License-File"] == "LICENSE"
    assert metadata["Requires-Python"] == ">=3.11"
    assert {label.split(",")[0] for label in metadata.get_all("Project-URL", [])} >= {"Source", "Changelog", "Issues"}
    with zipfile.ZipFile(release.wheel) as archive:
        licence = archive.read(f"ci_compiler-{__version__}.dist-info/licenses/LICENSE").decode()
    assert licence == (release.source / "LICENSE").read_text("utf-8")
    assert licence.startswith("MIT License\n")


def test_the_lowest_versions_are_those_that_the_metadata_allows(release: Release) -> None:
    needed = {
        line.replace(">=", "==") for line in release.metadata().get_all("Requires-Dist", []) if "extra ==" not in line
    }
    listed = (release.source / "tests/lowest.txt").read_text("utf-8").splitlines()
    assert {line for line in listed if not line.startswith("#")} == needed


def test_the_changelog_begins_with_this_version(release: Release) -> None:
    text = (release.source / ".github/docs/changelog.md").read_text("utf-8")
    assert next(line for line in text.splitlines() if line.startswith("## ")).split()[1] == __version__


def test_the_readme_states_this_version(release: Release) -> None:
    assert f"\nVersion {__version__}. " in (release.source / "README.md").read_text("utf-8")


def tree(folder: Path) -> Mapping[str, str]:
    """Every file under a folder, by its path from there."""
    return {
        path.relative_to(folder).as_posix(): path.read_text("utf-8") for path in folder.rglob("*") if path.is_file()
    }


@pytest.mark.slow
def test_the_wheel_alone_does_the_main_job_elsewhere(scripts: Path, tmp_path: Path) -> None:
    decided = plan(bundled_spec())
    compiler, runner = scripts / "ci-compile", scripts / "ci-runner"
    assert command(compiler, "--version", cwd=tmp_path).split() == ["ci-compile", __version__]

    repository = tmp_path / "repository"
    repository.mkdir()
    command(compiler, "--bundled", cwd=repository)
    assert tree(repository) == compile_files(decided)
    command(compiler, "--check", "--bundled", cwd=repository)

    branch = next(iter(decided.spec.branches))
    command(compiler, "recipes", "--bundled", "--branch", branch, "-o", tmp_path / "pkgs", cwd=tmp_path)
    expected = recipes(decided.spec, decided.judged, branch, self_contained=True)
    assert tree(tmp_path / "pkgs") == {Path(path).name: text for path, text in expected.items()}

    assert command(compiler, "schema", cwd=tmp_path) == schema_text()
    command(compiler, "site", "site", cwd=tmp_path)
    assert tree(tmp_path / "site") == {NAME: page(decided, "")}
    command(runner, "deploy", "systemd", "-o", "deployed", cwd=tmp_path)
    assert tree(tmp_path / "deployed/systemd") == deployment(decided.spec, "systemd").files


def test_the_wheel_alone_starts_a_repository_in_an_empty_folder(scripts: Path, tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    repository.mkdir()
    command(require("git"), "init", "--quiet", "--initial-branch", "main", cwd=repository)
    compiler = scripts / "ci-compile"
    command(compiler, "init", "--owner", "my-org", cwd=repository)
    command(compiler, cwd=repository)
    command(compiler, "--check", cwd=repository)
    assert compiled_by(repository) == __version__


def test_the_wheel_alone_hands_out_what_the_images_are_built_from(scripts: Path, tmp_path: Path) -> None:
    command(scripts / "ci-runner", "images", "images", cwd=tmp_path)
    made = {path.relative_to(tmp_path / "images"): path for path in (tmp_path / "images").rglob("*") if path.is_file()}
    own = ROOT / "runner-images"
    for path, copy in made.items():
        assert copy.read_bytes() == (own / path).read_bytes()
        assert copy.stat().st_mode & 0o111 == (own / path).stat().st_mode & 0o111, path
    wheel = tmp_path / f"images/archives/ci_compiler-{__version__}-py3-none-any.whl"
    wheel.touch()
    script = tmp_path / "images/build.py"
    printed = command(
        scripts / "python", script, "builder", "--engine", "docker", "--owner", "o", "--print", cwd=tmp_path
    )
    assert f"TOOLKIT_WHEEL=/archives/{wheel.name}" in printed
    assert printed.split()[-1] == str(tmp_path / "images")


def test_the_wheel_alone_upgrades_the_tree_of_the_first_version(scripts: Path, tmp_path: Path) -> None:
    repository = shutil.copytree(ROOT / "tests/data/compiled-0.1.0/tree", tmp_path / "repository")
    shutil.copy(ROOT / "tests/examples/good/smallest/ci-matrix.yaml", repository / ".github")
    compiler = scripts / "ci-compile"
    words = [compiler, "upgrade"]
    shown = subprocess.run(words, cwd=repository, env=OFFLINE, capture_output=True, text=True, check=False)
    assert shown.returncode == 1
    assert f'+  COMPILED_BY: "{__version__}"' in shown.stdout.splitlines()
    assert compiled_by(repository) == "0.1.0"
    command(*words, "--write", cwd=repository)
    command(compiler, "--check", cwd=repository)
    assert compiled_by(repository) == __version__
