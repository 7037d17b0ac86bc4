"""A text that must not be seen: tokens, private keys, the configuration of a just-in-time runner."""

from __future__ import annotations

from typing import Never

HIDDEN = "***"
"""What stands for a secret wherever it would be shown."""


class Secret:
    """A secret text. Whatever would show it (`repr`, `str`, a format, a traceback's arguments) shows `***`."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text itself, for the one who hands it on."""
        return self._text

    def cut_from(self, text: str) -> str:
        """`text` with every occurrence of the secret hidden, for what another program said."""
        return text.replace(self._text, HIDDEN) if self._text else text

    def __repr__(self) -> str:
        return HIDDEN

    def __format__(self, _: str) -> str:
        return HIDDEN

    def __reduce__(self) -> Never:
        message = "a secret is not stored"
        raise TypeError(message)
