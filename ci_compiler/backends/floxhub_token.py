"""Judging a FloxHub token: a JWT, which states when it expires, or an opaque one, whose expiry only FloxHub knows."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from ci_compiler.backends.protocol import SecretEvidence
from ci_compiler.clock import TOLERANCE, minute_of
from ci_compiler.judgement import Judgement, failed, ok
from ci_compiler.outside import object_of
from ci_compiler.units import release


@cache
def _opaque() -> Mapping[str, str]:
    facts: Mapping[str, str] = json.loads(Path(__file__).with_name("flox.json").read_bytes())["opaque-tokens"]
    return facts


def is_opaque(text: str) -> bool:
    """Whether `text` is a personal access token or that of a service account."""
    return text.startswith(_opaque()["prefix"])


def check_token(secret: str, evidence: SecretEvidence) -> Judgement:
    """Judges the token that `secret` holds: it must be valid until it has been used."""
    renew = f"make a new token for {evidence.owner} on FloxHub and put it into the secret {secret}"
    if is_opaque(evidence.text):
        return _opaque_token(evidence, renew)
    known = claims(evidence.text)
    if known is None:
        return failed(f"{secret} is not a FloxHub token (neither a JWT nor {_opaque()['prefix']}…)", renew)
    end, start = _seconds(known.get("exp")), _seconds(known.get("nbf"))
    if not end:
        return failed(f"{secret} is a token that never expires (no exp), which FloxHub does not issue", renew)
    wrong = ""
    if end <= evidence.now:
        wrong = f"expired on {minute_of(end)}"
    elif start > evidence.now + TOLERANCE:
        wrong = f"is not valid before {minute_of(start)}"
    elif end < evidence.now + evidence.minutes * 60:
        wrong = f"expires on {minute_of(end)}, but the work ahead takes up to {evidence.minutes} minutes"
    if wrong:
        return failed(f"{secret} {wrong}", renew)
    return ok(f"{secret} is valid until {minute_of(end)}; the work ahead takes up to {evidence.minutes} minutes")


def _opaque_token(evidence: SecretEvidence, renew: str) -> Judgement:
    flox, since, answer = evidence.machine.flox, _opaque()["since"], evidence.answer
    if flox and release(flox) < release(since):
        return failed(f"flox {flox} does not support this kind of token", f"install flox {since} or newer")
    if answer is None or answer.status != 0:
        said = "flox is not installed" if answer is None else f"flox: {answer.said}"
        return failed(f"whether FloxHub accepts the token cannot be checked ({said})", renew)
    return ok("flox accepts the token; only FloxHub knows when it expires")


def claims(text: str) -> Mapping[str, Any] | None:
    """The claims of a JWT (RFC 7519), whose signature is not checked; None if `text` is not a JWT."""
    parts = text.split(".")
    if len(parts) != 3:
        return None
    try:
        return object_of(base64.b64decode(parts[1] + "=" * (-len(parts[1]) % 4), altchars=b"-_", validate=True))
    except ValueError:  # of base64, UTF-8 and JSON
        return None


def _seconds(value: object) -> float:
    """A time of a token, in seconds since 1970; 0 if it is not a time that a clock could show."""
    return float(value) if isinstance(value, int | float) and 0 < value < 10**11 else 0
