"""The wheel project for the tests of the backend `command`, a new copy for each test, and stand-ins for Nix."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.backends.programs import Programs
from tests.backends.project import Project


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what is made once: a `new` project, and a `built` one."""
    folder = tmp_path_factory.mktemp("projects")
    (folder / "new").mkdir()
    project = Project(folder / "new", folder)
    project.start()
    shutil.copytree(folder / "new", folder / "built", symlinks=True, ignore=shutil.ignore_patterns("bin"))
    Project(folder / "built", folder).build()
    for name in ("new", "built"):
        shutil.rmtree(folder / name / "bin")
    return folder


@pytest.fixture
def project(tmp_path: Path, shared: Path) -> Project:
    shutil.copytree(shared / "new", tmp_path, symlinks=True, dirs_exist_ok=True)
    return Project(tmp_path, shared)


@pytest.fixture
def built(tmp_path: Path, shared: Path) -> Project:
    """A project after its build."""
    shutil.copytree(shared / "built", tmp_path, symlinks=True, dirs_exist_ok=True)
    return Project(tmp_path, shared)


@pytest.fixture
def nix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    """Nix' programs, which answer what the test says."""
    return Programs(tmp_path, monkeypatch, "nix", "nix-store", "nix-instantiate", "nix-build")
