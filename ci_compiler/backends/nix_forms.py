"""The forms of store paths and content hashes of Nix."""

from __future__ import annotations

import re

from ci_compiler.backends.protocol import OutputForms

_STORE_PATH = re.compile(r"/[A-Za-z0-9._/+-]*/[0-9a-df-np-sv-z]{32}-[A-Za-z0-9+._?=-]{1,211}")
"""A store path; the letters of its hash are those of Nix' base 32 (Nix manual, store path specification)."""

FORMS = OutputForms(
    derivation=_STORE_PATH,
    path=_STORE_PATH,
    content=re.compile(r"sha256:[0-9a-df-np-sv-z]{52}"),  # as `nix-store --query --hash` prints it
)
