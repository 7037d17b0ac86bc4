"""The publishing secrets of the backends."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from ci_compiler.backends import backends
from ci_compiler.secret import Secret

Secrets = Mapping[str, Secret]
"""The publishing secrets that the environment has, by name."""


@contextmanager
def taking_secrets() -> Iterator[Secrets]:
    """The publishing secrets. Within it, they are not in the environment, so that no program inherits them."""
    names = [backend.secret for backend in backends()]
    before = {name: os.environ.pop(name) for name in names if name in os.environ}
    try:
        yield {name: Secret(text) for name, text in before.items() if text.strip()}
    finally:
        os.environ.update(before)
