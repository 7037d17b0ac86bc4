"""What wheels must say of their version and their Python."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from ci_compiler.backends.job import JoinedVariant
from ci_compiler.backends.wheels import check_wheels
from tests.backends.programs import outcome

VARIANT = JoinedVariant(name="fast-cpu", patterns=(), folder=Path(), package="fast-path")


def wheel(folder: Path, name: str, version: str | None, before: str = "") -> Path:
    """A wheel whose metadata states a version; it has no metadata for None."""
    with zipfile.ZipFile(folder / name, "w") as file:
        file.writestr("fast/x.dist-info/METADATA", "Version: 9\n")
        if version is not None:
            file.writestr("fast.dist-info/METADATA", f"{before}Metadata-Version: 2.1\n{version}\n\nVersion: 9\n")
    return folder / name


@pytest.mark.parametrize(
    ("name", "metadata", "declared", "stated"),
    [
        ("fast_path-1.4.0-py3-none-any.whl", "Version: 1.4.0", "1.4.0", ""),
        ("Fast.Path-1.4.0-1-py3-none-any.whl", "version: 1.4.0", "1.4.0", ""),
        ("fast_path-1.4.0rc1+cu_128-py3-none-any.whl", "Version: 1.4.0.RC1+cu-128", "1.4.0.rc1+cu.128", ""),
        ("fast_path-9-py3-none-any.whl", "Version: 9", "", ""),
        (
            "fast_path-1.5-py3-none-any.whl",
            "Version: 1.4.0",
            "1.4.0",
            "1.5 by its name",
        ),
        (
            "fast_path-1.4.0-py3-none-any.whl",
            "Version: 1.5",
            "1.4.0",
            "1.5 by its metadata",
        ),
        (
            "fast_path-1.4.0-py3-none-any.whl",
            "Name: x",
            "1.4.0",
            "unknown by its metadata",
        ),
        ("fast_path-1.4.0.whl", "Version: 1.4.0", "1.4.0", "unknown by its name"),
        ("fast_path-1.4.0-1-2-py3-none-any.whl", "", "1.4.0", "unknown by its name"),
    ],
)
def test_a_wheel_has_the_declared_version_in_its_name_and_its_metadata(
    tmp_path: Path, name: str, metadata: str, declared: str, stated: str
) -> None:
    files = [wheel(tmp_path, name, metadata), tmp_path / "notes.txt"]
    found = outcome(lambda: check_wheels(VARIANT._replace(version=declared), files))
    message = f"fast-cpu: {name} is version {stated}, and {declared} is declared [version-differs]"
    assert found == (message if stated else None)


def test_a_wheel_has_metadata(tmp_path: Path) -> None:
    file = wheel(tmp_path, "fast_path-1-py3-none-any.whl", None)
    assert outcome(lambda: check_wheels(VARIANT._replace(version="1"), [file])) == (
        f"fast-cpu: {file.name} has no metadata that can be read: it holds no file like [^/]+\\.dist-info/METADATA "
        "[version-differs]"
    )


def test_metadata_is_read_as_far_as_a_limit(tmp_path: Path) -> None:
    for size, message in (((1 << 20) - 100, None), (1 << 20, "is version unknown by its metadata, and 1 is declared")):
        file = wheel(tmp_path, "fast_path-1-py3-none-any.whl", "Version: 1", f"Summary: {'x' * size}\n")
        found = outcome(lambda file=file: check_wheels(VARIANT._replace(version="1"), [file]))
        assert found == (message and f"fast-cpu: {file.name} {message} [version-differs]")


def test_of_several_wheels_those_of_the_package_count(tmp_path: Path) -> None:
    own = wheel(tmp_path, "FAST_PATH-1-py3-none-any.whl", "Version: 1")
    other = wheel(tmp_path, "needed-2-py3-none-any.whl", "Version: 2")
    assert outcome(lambda: check_wheels(VARIANT._replace(version="1"), [other, own])) is None
    refused = "fast-cpu: needed-2-py3-none-any.whl is version 2 by its name, and 1 is declared [version-differs]"
    assert outcome(lambda: check_wheels(VARIANT._replace(version="1"), [other])) == refused


@pytest.mark.parametrize(
    ("python", "tags", "fits"),
    [
        ("3.13", "py3-none-any", True),
        ("3.13", "py2.py3-none-any", True),
        ("3.13", "py2-none-any", False),
        ("3.13", "py39-none-any", True),
        ("3.13", "py313-none-linux_x86_64", True),
        ("3.13", "py314-none-any", False),
        ("3.13", "cp313-cp313-linux_x86_64", True),
        ("3.13", "cp313-none-linux_x86_64", True),
        ("3.13", "cp312-none-linux_x86_64", False),
        ("3.13", "cp312-cp312.cp313-linux_x86_64", False),
        ("3.13", "cp312.cp313-cp312.cp313-linux_x86_64", True),
        ("3.13", "cp313-cp313t-linux_x86_64", False),
        ("3.13", "cp39-abi3-linux_x86_64", True),
        ("3.13", "cp314-abi3-linux_x86_64", False),
        ("3.13", "pp311-pypy311_pp73-linux_x86_64", False),
        ("3.14t", "cp314-cp314t-linux_x86_64", True),
        ("3.14t", "cp314-cp314-linux_x86_64", False),
        ("3.14t", "cp39-abi3-linux_x86_64", False),
        ("3.14t", "py3-none-any", True),
        ("pypy3.11", "cp39-cp39-any", True),
        ("", "cp39-cp39-any", True),
        ("3.13", "1-cp39-cp39-any", False),
        ("3.13", "1-2-cp39-cp39-any", True),
        ("3.13", "cp39-any", True),
    ],
)
def test_a_wheel_is_for_the_python_of_its_variant(python: str, tags: str, fits: bool) -> None:
    found = outcome(lambda: check_wheels(VARIANT._replace(python=python), [Path(f"fast_path-1-{tags}.whl")]))
    refused = f"fast-cpu: fast_path-1-{tags}.whl is not for Python {python} by its name [python-differs]"
    assert found == (None if fits else refused)
