"""The environment of an evaluation, and files with secret keys."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from ci_compiler.backends.nix_environment import evaluation, key_file
from ci_compiler.secret import Secret


@pytest.mark.parametrize(
    ("given", "cache", "config"),
    [
        ({"HOME": "/home/me"}, "/home/me/.cache", "/home/me/.config/nix/nix.conf"),
        ({}, "/.cache", "/.config/nix/nix.conf"),
        ({"HOME": "/me", "XDG_CONFIG_HOME": "", "XDG_CACHE_HOME": ""}, "/me/.cache", "/me/.config/nix/nix.conf"),
        ({"HOME": "/me", "XDG_CONFIG_HOME": "/c", "XDG_CACHE_HOME": "/k"}, "/k", "/c/nix/nix.conf"),
        ({"HOME": "/me", "NIX_USER_CONF_FILES": "/own.conf"}, "/me/.cache", "/own.conf"),
        (
            {"HOME": "/me", "NIX_USER_CONF_FILES": "", "NIX_CONFIG": "cores = 1"},
            "/me/.cache",
            "",
        ),
    ],
)
def test_a_recipe_is_evaluated_in_an_empty_home_with_the_usual_settings(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], cache: str, config: str
) -> None:
    monkeypatch.setattr(os, "environ", {"PATH": "/bin", **given})
    with evaluation() as found:
        home = Path(found["HOME"])
        assert list(home.iterdir()) == []
        assert found == {
            "PATH": "/bin",
            "HOME": str(home),
            "XDG_CONFIG_HOME": str(home),
            "XDG_CACHE_HOME": cache,
            "NIX_USER_CONF_FILES": config,
            "NIX_PATH": "",
            "NIX_CONFIG": f"{given.get('NIX_CONFIG', '')}\nallow-import-from-derivation = false",
        }
    assert not home.exists()


def test_a_key_is_in_a_file_of_this_user_only_for_a_while() -> None:
    with key_file(Secret(" cache-1:hush\n")) as path:
        assert path.read_text("utf-8") == "cache-1:hush"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert path.name == "key"
    assert not path.parent.exists()
