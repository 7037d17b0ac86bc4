"""Where recipes name each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci_compiler.errors import Place
from ci_compiler.recipes.named import named_at, reached


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("{ }:\n  import ./engine.nix { }\n", (2, 10)),
        ("import ../pkgs/engine.nix { }", (1, 8)),
        ("import ./engine { }", (1, 8)),
        ("# ./engine.nix\nimport ./other.nix { }", None),
        ('"./engine.nix"', None),
    ],
)
def test_a_recipe_names_another_at_this_place(tmp_path: Path, text: str, at: tuple[int, int] | None) -> None:
    pkgs = tmp_path / "pkgs"
    pkgs.mkdir()
    (pkgs / "engine.nix").write_text("1", "utf-8")
    (pkgs / "vision.nix").write_text("import ../shared.nix", "utf-8")
    (tmp_path / "shared.nix").write_text(text.replace("./", "./pkgs/").replace("../pkgs/pkgs", "./pkgs"), "utf-8")
    files = list(reached(pkgs / "vision.nix", tmp_path))
    found = named_at(pkgs / "engine.nix", files)
    assert found == (Place(str(tmp_path / "shared.nix"), *at) if at else None)
