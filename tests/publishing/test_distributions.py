"""What the names and the metadata of wheels and source distributions say."""

from __future__ import annotations

import zipfile
from email.message import Message
from pathlib import Path

import pytest

from ci_compiler.publishing.distributions import metadata_of, pins_of, project_of, spelled, version_of
from tests.publishing.places import wheel


@pytest.mark.parametrize(
    ("name", "project", "version"),
    [  # PEP 427, "File name convention"; PEP 625, "Specification"; PEP 503, "Normalized Names"
        ("fastpath-1.4.0-py3-none-any.whl", "fastpath", "1.4.0"),
        ("Flash_Attn.ops-2.8.3+cu130-1-cp311-cp311-linux_x86_64.whl", "flash-attn-ops", "2.8.3+cu130"),
        ("my_kernels-1.0.dev20261123.tar.gz", "my-kernels", "1.0.dev20261123"),
        ("fastpath-1.4.0.whl", "", ""),
        ("fastpath-1.4.0.zip", "", ""),
        ("fastpath.tar.gz", "", ""),
        ("-1.0.tar.gz", "", ""),
        ("fastpath-1.4.0.tar.gz.asc", "", ""),
        ("fastpath-1.4.0.tarXgz", "", ""),
    ],
)
def test_the_name_of_a_distribution_has_its_project_and_version(name: str, project: str, version: str) -> None:
    assert (project_of(name), version_of(name)) == (project, version)


@pytest.mark.parametrize("written", ["friendly-bard", "Friendly-Bard", "FRIENDLY-BARD", "friendly.bard", "f.-_rb"])
def test_projects_are_spelled_as_pep_503_says(written: str) -> None:
    assert spelled(written) == ("f-rb" if written.startswith("f.") else "friendly-bard")


def test_the_metadata_of_a_wheel_has_its_headers_and_not_what_its_description_repeats(tmp_path: Path) -> None:
    metadata = metadata_of(wheel(tmp_path, metadata="Summary: fast paths\n\nSummary: of the description\n").path)
    assert (metadata["Name"], metadata["Requires-Python"]) == ("fastpath", ">=3.9")
    assert metadata.get_all("Summary") == ["fast paths"]
    assert metadata.get_payload() == "Summary: of the description\n"


@pytest.mark.parametrize(
    ("required", "pins"),
    [
        ("Base_Lib==1.0", ["base-lib==1.0"]),
        ("base (==1.0+cpu) ; extra == 'x'", ["base==1.0+cpu"]),
        ("base[all]===1.0", ["base==1.0"]),
        ("base>=1.0", []),
        ("base==1.0,!=1.1", []),
        ("base", []),
    ],
)
def test_a_requirement_of_one_version_is_a_pin(required: str, pins: list[str]) -> None:
    metadata = Message()
    metadata["Requires-Dist"] = required
    assert [*pins_of(metadata)] == pins


@pytest.mark.parametrize("place", ["METADATA", "a/fastpath-1.dist-info/METADATA", "fastpath-1.dist-info/METADATA.txt"])
def test_metadata_is_in_the_wheels_own_folder(tmp_path: Path, place: str) -> None:
    with zipfile.ZipFile(tmp_path / "fastpath-1-py3-none-any.whl", "w") as file:
        file.writestr(place, "Name: fastpath\n")
    with pytest.raises(OSError, match="it holds no file like"):
        metadata_of(tmp_path / "fastpath-1-py3-none-any.whl")


def test_a_mebibyte_of_metadata_is_read(tmp_path: Path) -> None:
    path = wheel(tmp_path, metadata=f"\n{'x' * (2 << 20)}").path
    metadata = metadata_of(path)
    assert len(f"{metadata.as_string()}") == 1 << 20
