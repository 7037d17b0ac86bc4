"""The interpreter for a package has what a user gets with the package, and not the rest of its closure."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci_compiler.backends.nix_python import DEVELOPMENT, INSTALLED, interpreter_of, propagated
from ci_compiler.errors import StageError

SITE = "lib/python3.13/site-packages"


def path(store: Path, name: str, file: str = DEVELOPMENT, *propagates: Path) -> Path:
    """A store path with a Python package (with an interpreter: python3), and what it records in `nix-support/file`."""
    made = store / name
    if name == "python3":
        (made / "bin").mkdir(parents=True)
        (made / "bin/python3.13").write_text("#!/bin/sh\n", "utf-8")
        (made / "bin/python3.13").chmod(0o755)
    elif not name.endswith("-dev"):
        (made / SITE).mkdir(parents=True)
    if propagates:
        (made / "nix-support").mkdir(parents=True)
        (made / "nix-support" / file).write_text(" ".join(map(str, propagates)) + "\n", "utf-8")
    return made


@pytest.mark.parametrize("file", ["propagated-build-inputs", "propagated-user-env-packages"])
def test_what_is_propagated_is_there_and_nothing_else(tmp_path: Path, file: str) -> None:
    python, numpy = path(tmp_path, "python3"), path(tmp_path, "numpy")
    path(tmp_path, "in-the-closure-alone")
    torch = path(tmp_path, "torch", file, numpy)
    vision = path(tmp_path, "vision", file, python, torch)
    found = interpreter_of(str(vision), [str(vision)])
    assert found.program == str(python / "bin/python3.13")
    assert found.paths == tuple(str(one / SITE) for one in (vision, torch, numpy))


def test_a_torch_that_is_handed_on_as_dev_alone_is_not_there(tmp_path: Path) -> None:
    python, torch = path(tmp_path, "python3"), path(tmp_path, "torch")
    dev = path(tmp_path, "torch-dev", DEVELOPMENT, path(tmp_path, "numpy"))
    without = path(tmp_path, "vision", DEVELOPMENT, python, dev)
    assert str(torch / SITE) not in interpreter_of(str(without), [str(without)]).paths
    with_it = path(tmp_path, "vision-2", DEVELOPMENT, python, dev, torch)
    assert str(torch / SITE) in interpreter_of(str(with_it), [str(with_it)]).paths


def test_another_output_records_what_a_package_propagates(tmp_path: Path) -> None:
    python, numpy = path(tmp_path, "python3"), path(tmp_path, "numpy")
    torch, dev = path(tmp_path, "torch"), path(tmp_path, "torch-dev", DEVELOPMENT, python, numpy)
    assert interpreter_of(str(torch), [str(torch), str(dev)]).paths == (str(torch / SITE), str(numpy / SITE))
    with pytest.raises(StageError, match=r"propagates no python3\.13"):
        interpreter_of(str(torch), [str(torch)])


def test_each_further_way_to_get_a_package_has_an_import_path_of_its_own(tmp_path: Path) -> None:
    python, numpy, torch = (path(tmp_path, name) for name in ("python3", "numpy", "torch"))
    vision = path(tmp_path, "vision", DEVELOPMENT, python, torch, numpy)
    (vision / "nix-support" / INSTALLED).write_text(str(torch), "utf-8")
    installed, with_packages = interpreter_of(str(vision), [str(vision)], [str(python), str(numpy)]).ways
    assert installed == (INSTALLED, (str(vision / SITE), str(torch / SITE)), "")
    assert with_packages == ("withPackages", (str(vision / SITE), str(numpy / SITE)), "")


def test_a_way_that_nothing_is_known_of_is_not_tested(tmp_path: Path) -> None:
    vision = path(tmp_path, "vision", DEVELOPMENT, path(tmp_path, "python3"))
    reasons = [way.lacks for way in interpreter_of(str(vision), [str(vision)]).ways]
    assert reasons == [
        "the package records no propagated-user-env-packages, so that its users get it alone at run time",
        "the manifest names no requiredPythonModules",
    ]
    absent = str(tmp_path / "absent")
    assert interpreter_of(str(vision), [], [absent]).ways[1].lacks == f"{absent} is not in the closure of the package"


def test_a_package_that_is_not_for_python_has_no_interpreter(tmp_path: Path) -> None:
    found = interpreter_of(str(tmp_path), [str(tmp_path)])
    assert found == ("", (), str(tmp_path), "has no lib/python3.X/site-packages to import from", ())


def test_packages_that_propagate_each_other_are_there_once(tmp_path: Path) -> None:
    python, numpy = path(tmp_path, "python3"), path(tmp_path, "numpy")
    torch = path(tmp_path, "torch", DEVELOPMENT, python, numpy)
    (numpy / "nix-support").mkdir()
    (numpy / "nix-support" / DEVELOPMENT).write_text(f"{torch}\n{python}\n", "utf-8")
    assert propagated(str(torch), files=[DEVELOPMENT]) == [str(torch), str(python), str(numpy)]
