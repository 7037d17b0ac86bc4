"""The backends, one row each.

The spec's schema, routing, the workflows, the doctor, the reports and the stages on machines read the rows: a further
backend is a module and a row.
"""

from __future__ import annotations

from ci_compiler.backends.command import CommandBackend
from ci_compiler.backends.flox import Flox
from ci_compiler.backends.nix import Nix
from ci_compiler.backends.protocol import Backend

BACKENDS: tuple[Backend, ...] = (Flox(), Nix(), CommandBackend())
"""The table. The first is the default of a spec."""


def backends() -> tuple[Backend, ...]:
    """Every backend."""
    return BACKENDS


def backend_of(name: str) -> Backend:
    """The backend called `name`. Raises KeyError."""
    return {backend.name: backend for backend in BACKENDS}[name]
