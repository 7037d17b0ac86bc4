"""What several modules of a backend agree on: programs, the key of the cache, and the forms of what a build reports."""

from __future__ import annotations

import re
from pathlib import Path

from ci_compiler.backends.protocol import OutputForms, Tool
from ci_compiler.system import DEVICE

BASH = Tool(name="bash", install="install bash; on Windows, install Git, which has it")
FLOX = Tool(name="flox", install="install it from https://flox.dev/docs/install-flox, for the runner's user")

CACHE_KEY = "NIX_CACHE_SIGNING_KEY"
"""The secret key that paths of the binary cache are signed with. A build of any backend signs with it if it is set."""

FILE = rf"files/(?!{DEVICE})[A-Za-z0-9][A-Za-z0-9._+-]{{0,199}}(?<!\.)"
"""The path of a built file from the folder of the manifest: every system can have such a file."""

_STORE_PATH = re.compile(r"/[A-Za-z0-9._/+-]*/[0-9a-df-np-sv-z]{32}-[A-Za-z0-9+._?=-]{1,211}")
"""A store path; the letters of its hash are those of Nix' base 32 (Nix manual, store path specification)."""

FORMS = OutputForms(
    derivation=_STORE_PATH,
    path=_STORE_PATH,
    content=re.compile(r"sha256:[0-9a-df-np-sv-z]{52}"),  # as `nix-store --query --hash` prints it
)
"""The forms of the outputs of every backend that builds with Nix."""


def path_name(path: str) -> str:
    """The name of a store path, without the folder, the hash and the dash."""
    return Path(path).name[33:]
