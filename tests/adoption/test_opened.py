"""Fleets with other families than the short form's in their names are adopted by axes."""

from __future__ import annotations

from pathlib import Path

import pytest
from ruamel.yaml import YAML

from ci_compiler.adoption.adopt import SHOWN, adopt
from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM
from tests.adoption.helpers import needs_nix
from tests.adoption.test_adopt import folder_of

ROCM = [f"python3{minor}-rocm7_1-{gpu}-avx2" for minor in (12, 13) for gpu in ("gfx90a", "gfx942")]
SHORT = ["python313-cpu-avx2", "python313-cuda12_8-sm90-avx2", "python313-cuda12_8-sm90-avx512"]


def recipe(name: str) -> str:
    return f'{{ python3Packages }}: python3Packages.torch.overrideAttrs {{ pname = "{name}"; }}\n'


def fleet(root: Path, *suffixes: str) -> Path:
    return folder_of(root, {f"pkg-{suffix}": recipe(f"pkg-{suffix}") for suffix in suffixes})


def opened(root: Path, *suffixes: str) -> dict[str, list[str]]:
    """The accelerators of the adopted spec's variants by name; all must come back, and none be made up."""
    found = adopt([fleet(root, *suffixes)])
    assert found.complete, found.names
    assert found.names["main"] == {f"pkg-{suffix}" for suffix in suffixes}
    return {
        cell.variants[0].name.removeprefix("pkg-"): [
            cell.axes[part] for part in ("family", "toolkit", "target") if part in cell.axes
        ]
        for cell in found.judged.cells
    }


@needs_nix
def test_a_fleet_with_rocm_is_adopted_by_axes_and_what_nothing_is_known_of_by_name(tmp_path: Path) -> None:
    suffixes = [*ROCM, *SHORT, "python313-darwin-mps"]
    accelerators = opened(tmp_path / "main", *suffixes)
    assert accelerators["python313-darwin-mps"] == []
    assert accelerators["python312-rocm7_1-gfx942-avx2"] == ["rocm", "7.1", "gfx942"]
    assert accelerators["python313-cuda12_8-sm90-avx512"] == ["cuda", "12.8", "sm90"]


@needs_nix
@pytest.mark.parametrize(
    ("suffix", "accelerator"),
    [
        ("python313-rocm7_1-gfx942", ["rocm", "7.1", "gfx942"]),
        ("rocm7_1-gfx942-avx2", ["rocm", "7.1", "gfx942"]),
        ("python313-rocm7_1-x86_64-linux", ["rocm", "7.1"]),
        ("python313-mps", []),
        ("python313-rocm7_1-gfx942-avx2-debug", []),
        ("python313-rocm7_1-sm90-avx2", []),
    ],
)
def test_what_a_name_tells(suffix: str, accelerator: list[str], tmp_path: Path) -> None:
    """A name that the grammar does not give back is listed, as before."""
    assert opened(tmp_path / "main", suffix, *SHORT)[suffix] == accelerator


@needs_nix
def test_toolkits_without_dots_are_versions(tmp_path: Path) -> None:
    """As huggingface/kernels names its variants."""
    tags = {"rocm64": "6.4", "rocm71": "7.1", "rocm714": "7.14", "rocm100": "10.0"}
    found = opened(tmp_path / "main", *(f"{tag}-x86_64-linux" for tag in tags), *SHORT)
    assert {tag: found[f"{tag}-x86_64-linux"][1:] for tag in tags} == {tag: [toolkit] for tag, toolkit in tags.items()}
    assert opened(tmp_path / "other/main", "rocm99-x86_64-linux", *SHORT)["rocm99-x86_64-linux"] == ["rocm", "99"]


@needs_nix
def test_the_adopted_spec_compiles_and_changes_no_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = fleet(tmp_path / "main", *ROCM, *SHORT)
    before = {path: path.read_bytes() for path in (root / ".flox").rglob("*.nix")}
    adopted = adopt([root])
    spec = YAML(typ="safe").load(adopted.text)
    assert spec["packages"]["pkg"]["matrix"]["rows"]
    assert "variants" not in spec["packages"]["pkg"]
    (root / SHOWN).parent.mkdir()
    (root / SHOWN).write_text(adopted.text, "utf-8")
    monkeypatch.chdir(root)
    assert run(PROGRAM, []) == 0
    assert run(PROGRAM, ["--check"]) == 0
    assert {path: path.read_bytes() for path in (root / ".flox").rglob("*.nix")} == before
