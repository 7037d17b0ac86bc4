"""The publishing secrets of the backends."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from ci_compiler.secret import Secret
from ci_compiler.spec.model import Backend
from ci_compiler.workflows.variant import TOKEN

Secrets = Mapping[Backend, Secret]
"""The publishing secret of each backend that has one in the environment."""


@contextmanager
def taking_secrets() -> Iterator[Secrets]:
    """The publishing secrets. Within it, they are not in the environment, so that no program inherits them."""
    before = {name: os.environ.pop(name) for name in TOKEN.values() if name in os.environ}
    try:
        yield {Backend(key): Secret(before[name]) for key, name in TOKEN.items() if before.get(name, "").strip()}
    finally:
        os.environ.update(before)
