"""Text that must not be shown: tokens, private keys, the configuration of a just-in-time runner."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Never

HIDDEN = "***"
"""What replaces a secret wherever it would be shown."""

_PREFIXED = (
    r"(?<![A-Za-z0-9_])(?:gh[opsur]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|eyJ[\w-]{8,}\.[\w.-]+|pypi-Ag[\w-]{20,}"
    r"|hf_[A-Za-z0-9]{20,}|glpat-[\w-]{20,}|npm_[A-Za-z0-9]{30,})"
)
TOKEN = re.compile(_PREFIXED)
"""Tokens of GitHub (ghp_…), PyPI, Hugging Face, GitLab and npm by their prefixes, and JSON Web Tokens."""

_SECRETS = re.compile(
    rf"{_PREFIXED}|(?<![A-Za-z0-9_])A[KS]IA[0-9A-Z]{{16}}"
    r"|[A-Za-z0-9+/]{86}==|(?<=://)[^/@\s]+(?=@)|^ *[A-Za-z0-9+/]{64}$"
)
"""Tokens, key identifiers of AWS, the secret keys that sign a binary cache (64 bytes in Base64), the user and password
in a URL, and the lines of a private key in PEM."""


def hide_secrets(text: str) -> str:
    """`text`, such as a line of a file, with everything hidden that looks like a secret."""
    return _SECRETS.sub(HIDDEN, text)


class Secret:
    """A secret text. Whatever would show it (`repr`, `str`, a format, the arguments in a traceback) shows `***`."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text itself, for the code that passes it on."""
        return self._text

    def cut_from(self, text: str) -> str:
        """`text`, such as the output of a program, with every occurrence of the secret hidden."""
        return text.replace(self._text, HIDDEN) if self._text else text

    def __eq__(self, other: object) -> bool:
        from hmac import compare_digest  # `errors` imports this module, and few commands compare secrets

        return isinstance(other, Secret) and compare_digest(self._text.encode(), other._text.encode())

    def __hash__(self) -> int:
        return hash(self._text)

    def __repr__(self) -> str:
        return HIDDEN

    def __format__(self, _: str) -> str:
        return HIDDEN

    def __reduce__(self) -> Never:
        message = "a secret cannot be pickled"
        raise TypeError(message)


def cut_secrets(text: str, secrets: Iterable[Secret]) -> str:
    """`text`, such as a line of output, with every occurrence of each of `secrets` hidden."""
    for secret in secrets:
        text = secret.cut_from(text)
    return text
