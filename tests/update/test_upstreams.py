"""Packages beyond torch: an upstream and a form of its tags in the spec."""

from __future__ import annotations

import pytest
import yaml

from tests.recipes.test_affected import Repository
from tests.update.conftest import FILE, SPEC
from tests.update.upstreams import Upstreams, package_index

VLLM = "vllm-project/vllm"


def with_package(fleet: Repository, upstream: str) -> None:
    """Adds the package vllm 0.10.1 to the branch main."""
    fleet.write(
        FILE,
        SPEC.replace("versions: {pytorch: 2.8.0,", "versions: {vllm: 0.10.1, pytorch: 2.8.0,").replace(
            "  torchvision: {needs",
            f"  vllm: {{branches: [main], upstream: {{{upstream}}}}}  # serves models\n  torchvision: {{needs",
        ),
    )


def main(fleet: Repository) -> tuple[str, dict[str, str] | None]:
    row = yaml.safe_load((fleet.root / FILE).read_text("utf-8"))["branches"]["main"]
    return row["versions"]["vllm"], row.get("sources", {}).get("vllm")


@pytest.mark.parametrize(("line", "version"), [(2, "0.10.2"), (1, "0.11.0"), (0, "1.0.0")])
def test_a_package_follows_the_tags_of_its_upstream(
    fleet: Repository, upstreams: Upstreams, line: int, version: str
) -> None:
    for number in ("0.10.1", "0.10.2", "0.11.0", "1.0.0"):
        upstreams.tag(VLLM, f"release-{number}", f"release-{number}.rc1", f"v{number[0]}9")
    with_package(fleet, f"repository: {VLLM}, tags: release-@version@, line: {line}")
    assert fleet.ci("update") == 0
    now, source = main(fleet)
    assert now == version
    assert source is not None
    assert (source["repository"], source["tag"]) == (VLLM, f"release-{version}")
    assert "# serves models" in (fleet.root / FILE).read_text("utf-8")


def test_a_package_whose_version_nixpkgs_has_needs_no_source(fleet: Repository, upstreams: Upstreams) -> None:
    upstreams.tag(VLLM, "v0.10.2")
    wanted = upstreams.nixpkgs("nixos-25.11", torch="2.8.0", torchvision="0.23.0", vllm="0.10.2")
    with_package(fleet, f"repository: {VLLM}")
    assert fleet.ci("update", "vllm") == 0
    assert main(fleet) == ("0.10.2", None)
    assert f"nixpkgs: {wanted}   # torch 2.8.0" in (fleet.root / FILE).read_text("utf-8")


def test_a_package_of_the_index_alone_needs_a_nixpkgs_that_has_it(
    fleet: Repository, upstreams: Upstreams, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with_package(fleet, "index: torch")
    before = (fleet.root / FILE).read_bytes()
    assert fleet.ci("update", "vllm") == 2
    assert "PIP_INDEX_URL: torch is in a package index; set its address" in capsys.readouterr().err
    with package_index({"torch": {"0.10.1": False, "0.10.2": False, "0.10.3rc1": False}}) as address:
        monkeypatch.setenv("PIP_INDEX_URL", address)
        assert fleet.ci("update", "vllm") == 2
        assert "no nixpkgs has vllm 0.10.2" in capsys.readouterr().err
        assert (fleet.root / FILE).read_bytes() == before
        upstreams.nixpkgs("nixos-25.11", torch="2.8.0", torchvision="0.23.0", vllm="0.10.2")
        assert fleet.ci("update", "vllm") == 0
    assert main(fleet) == ("0.10.2", None)
