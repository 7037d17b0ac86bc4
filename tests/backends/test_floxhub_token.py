"""Judging a FloxHub token: what it states of itself, or what flox says of it."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from ci_compiler.backends.floxhub_token import check_token, claims, is_opaque
from ci_compiler.backends.protocol import SecretEvidence
from ci_compiler.clock import TOLERANCE
from ci_compiler.hardware.machine import Machine
from ci_compiler.hardware.texts import Answer
from ci_compiler.judgement import Judgement, failed, ok

NOW = 1_800_000_000  # 2027-01-15 08:00 UTC
EVIDENCE = SecretEvidence(
    text="", now=NOW, minutes=120, owner="my-org", cache=None, machine=Machine(system="x86_64-linux"), answer=None
)
RENEW = "make a new token for my-org on FloxHub and put it into the secret TOKEN"
WORK = "; the work ahead takes up to 120 minutes"
TOO_LONG = ", but the work ahead takes up to 120 minutes"
UNKNOWN = "TOKEN is not a FloxHub token (neither a JWT nor flox_…)"
ENDLESS = "TOKEN is a token that never expires (no exp), which FloxHub does not issue"


def token(**claimed: Any) -> str:
    """A token like FloxHub's, with `claimed` in its payload."""
    payload = base64.urlsafe_b64encode(json.dumps(claimed).encode()).decode().rstrip("=")
    return f"e30.{payload}.c2lnbmF0dXJl"


@pytest.mark.parametrize(
    ("text", "wrong", "right"),
    [
        (token(exp=NOW + 7200), "", f"TOKEN is valid until 2027-01-15 10:00 UTC{WORK}"),
        (token(exp=NOW + 7199), f"TOKEN expires on 2027-01-15 09:59 UTC{TOO_LONG}", ""),
        (token(exp=NOW + 1), f"TOKEN expires on 2027-01-15 08:00 UTC{TOO_LONG}", ""),
        (token(exp=NOW), "TOKEN expired on 2027-01-15 08:00 UTC", ""),
        (token(exp=1), "TOKEN expired on 1970-01-01 00:00 UTC", ""),
        (token(exp=NOW + 9000.5, nbf=NOW + TOLERANCE), "", f"TOKEN is valid until 2027-01-15 10:30 UTC{WORK}"),
        (token(exp=NOW + 9000, nbf=NOW + TOLERANCE + 1), "TOKEN is not valid before 2027-01-15 08:05 UTC", ""),
        (token(exp=10**11 - 1), "", f"TOKEN is valid until 5138-11-16 09:46 UTC{WORK}"),
        *((token(exp=end), ENDLESS, "") for end in (10**11, 0, -1, "soon", None)),
        (token(), ENDLESS, ""),
        *(
            (text, UNKNOWN, "")
            for text in ("", "hush", "a.b", "a.b.c.d", "a.!.c", "a.W10.c", "a.eyI.c", token(exp=10**400))
        ),
    ],
)
def test_a_token_that_states_when_it_expires_must_be_valid_until_it_was_used(text: str, wrong: str, right: str) -> None:
    judgement = failed(wrong, RENEW) if wrong else ok(right)
    assert check_token("TOKEN", EVIDENCE._replace(text=text)) == judgement


@pytest.mark.parametrize(
    ("flox", "answer", "judgement"),
    [
        ("1.14.0", Answer(status=0), ok("flox accepts the token; only FloxHub knows when it expires")),
        ("", Answer(status=0), ok("flox accepts the token; only FloxHub knows when it expires")),
        (
            "1.13.9",
            Answer(status=0),
            failed("flox 1.13.9 does not support this kind of token", "install flox 1.14.0 or newer"),
        ),
        (
            "1.15.0",
            Answer(status=1, err="not logged in"),
            failed("whether FloxHub accepts the token cannot be checked (flox: not logged in)", RENEW),
        ),
        ("", None, failed("whether FloxHub accepts the token cannot be checked (flox is not installed)", RENEW)),
    ],
)
def test_a_token_that_only_floxhub_can_read_is_proved_by_flox(
    flox: str, answer: Answer | None, judgement: Judgement
) -> None:
    machine = Machine(system="x86_64-linux", flox=flox)
    shown = EVIDENCE._replace(text="flox_sat_hush", machine=machine, answer=answer)
    assert check_token("TOKEN", shown) == judgement


def test_the_claims_of_a_token_are_read_in_each_alphabet_and_with_any_padding() -> None:
    for text in ("", "a", "ab", "abc", "ü?>~"):
        assert claims(token(text=text)) == {"text": text}
    assert is_opaque("flox_pat_hush")
    assert not is_opaque(token())
