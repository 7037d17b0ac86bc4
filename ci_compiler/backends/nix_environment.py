"""What Nix' programs are started with: the environment of an evaluation, and secret keys."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ci_compiler.secret import Secret


@contextmanager
def evaluation() -> Iterator[dict[str, str]]:
    """The environment to evaluate and build a recipe in: an empty home, no search path, the usual nix.conf.

    An evaluation builds nothing: no machine that publishes may run code that was not tested.
    """
    home, env = Path(os.environ.get("HOME", "/")), dict(os.environ)
    config = Path(env.get("XDG_CONFIG_HOME") or home / ".config")
    with tempfile.TemporaryDirectory(prefix="ci-runner-home-") as empty:
        env |= {
            "HOME": empty,
            "XDG_CONFIG_HOME": empty,
            "XDG_CACHE_HOME": env.get("XDG_CACHE_HOME") or str(home / ".cache"),
            "NIX_USER_CONF_FILES": env.get("NIX_USER_CONF_FILES", str(config / "nix" / "nix.conf")),
            "NIX_PATH": "",
            "NIX_CONFIG": f"{env.get('NIX_CONFIG', '')}\nallow-import-from-derivation = false",
        }
        yield env


@contextmanager
def key_file(key: Secret) -> Iterator[Path]:
    """A temporary file with a secret key that only this user may read."""
    with tempfile.TemporaryDirectory(prefix="ci-runner-key-") as folder:
        path = Path(folder, "key")
        with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
            file.write(key.reveal().strip())
        yield path
