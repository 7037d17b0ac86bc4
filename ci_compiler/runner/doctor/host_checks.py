"""What any job needs of a machine: a clock, a runner that GitHub still supports, a token that outlives the work."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from ci_compiler.runner.doctor.evidence import Assignment, Check, Evidence, Judgement, failed, ok, skipped
from ci_compiler.runner.upstream import release, upstream
from ci_compiler.spec.model import Backend
from ci_compiler.stages import BUILD, PUBLISH
from ci_compiler.workflows.variant import TOKEN

CLOCK_TOLERANCE = 300
"""Seconds that a file may seem to come from the future, before the clock is called wrong."""

_SET_CLOCK = "set the clock: `timedatectl set-ntp true`, or chrony, on the machine (a container has the machine's)"


def clock(_: Assignment, evidence: Evidence) -> Judgement:
    """The clock: TLS and tokens fail under one that is wrong, and caches take old for new."""
    seen = evidence.clock
    if seen.now < upstream().written:
        return failed(f"it says {_day(seen.now)}, which is before this toolkit was written", _SET_CLOCK)
    if seen.now + CLOCK_TOLERANCE < seen.newest:
        message = f"it says {_time(seen.now)}, and {seen.newest_file} is of {_time(seen.newest)}"
        return failed(message, _SET_CLOCK)
    if seen.synchronised is False:
        return failed(f"it says {_time(seen.now)}, and is synchronised with nothing", _SET_CLOCK)
    proved = "synchronised" if seen.synchronised else "later than its files; nobody here tells if it is synchronised"
    return ok(f"{_time(seen.now)}, {proved}")


def runner(_: Assignment, evidence: Evidence) -> Judgement:
    """GitHub's runner is one that may still register."""
    if not evidence.runner:
        return skipped("no runner of GitHub started this, and none was found (bin/Runner.Listener)")
    lowest, days = upstream().runner, upstream().runner_days
    if release(evidence.runner) >= release(lowest):
        return ok(f"{evidence.runner} ({lowest} is the lowest that may register; a release counts for {days} days)")
    message = f"runner {evidence.runner} is past its support; {lowest} is the lowest that may register"
    return failed(message, "install a newer one from https://github.com/actions/runner/releases")


def token(work: Assignment, evidence: Evidence) -> Judgement:
    """The publishing secret is there, is what it shall be, and lasts until it has been used."""
    name = TOKEN[work.spec.backend]
    given = evidence.token if work.spec.backend is Backend.FLOX else evidence.key
    if not given:
        if work.stage is PUBLISH:
            mend = f"put it into the secret {name} of GitHub's environment {work.spec.publish.environment}"
            return failed(f"{name} is not set", mend)
        return skipped(f"{name} is not set; only the publish stage gets it")
    return _key(work, given) if work.spec.backend is Backend.NIX else _flox_token(work, evidence, name)


def _flox_token(work: Assignment, evidence: Evidence, name: str) -> Judgement:
    renew = f"make a new token for {work.spec.owner} on FloxHub and put it into the secret {name}"
    opaque = upstream().opaque_token
    if evidence.token.startswith(opaque):
        return _opaque_token(evidence, renew)
    known = claims(evidence.token)
    if known is None:
        return failed(f"{name} holds no token of FloxHub (neither a JWT nor {opaque}…)", renew)
    end, start = _seconds(known.get("exp")), _seconds(known.get("nbf"))
    if not end:
        return failed(f"{name} is a token without an end (exp), which FloxHub does not make", renew)
    now, minutes = evidence.clock.now, _minutes_ahead(work)
    wrong = ""
    if end <= now:
        wrong = f"expired on {_time(end)}"
    elif start > now + CLOCK_TOLERANCE:
        wrong = f"is not valid before {_time(start)}"
    elif end < now + minutes * 60:
        wrong = f"expires on {_time(end)}, and up to {minutes} minutes of work are ahead"
    if wrong:
        return failed(f"{name} {wrong}", renew)
    return ok(f"{name} is valid until {_time(end)}, {minutes} minutes of work are ahead at the most")


def _opaque_token(evidence: Evidence, renew: str) -> Judgement:
    """A personal access token or one of a service account, of which only FloxHub knows the end."""
    flox, since = evidence.machine.flox, upstream().opaque_since
    if flox and release(flox) < release(since):
        return failed(f"flox {flox} does not know such a token, which needs {since}", f"install flox {since} or newer")
    if evidence.auth is None or evidence.auth.status != 0:
        said = "flox is not there to ask FloxHub" if evidence.auth is None else f"flox: {evidence.auth.said}"
        return failed(f"whether FloxHub takes the token cannot be proved ({said})", renew)
    return ok("flox takes the token; only FloxHub knows its end")


def _minutes_ahead(work: Assignment) -> int:
    """For how long the token must last: for the longest build that is still to come, and the publishing behind it."""
    publishing = max(work.spec.timeouts[PUBLISH], work.minutes)
    return publishing if work.stage is PUBLISH else work.spec.timeouts[BUILD] + publishing


def claims(text: str) -> Mapping[str, Any] | None:
    """What a JWT claims (RFC 7519), its signature unjudged; None for what is no JWT."""
    parts = text.split(".")
    if len(parts) != 3:
        return None
    try:
        data = json.loads(base64.b64decode(parts[1] + "=" * (-len(parts[1]) % 4), altchars=b"-_", validate=True))
    except (ValueError, RecursionError):  # of base64, UTF-8 and JSON
        return None
    return data if isinstance(data, dict) else None


def _key(work: Assignment, key: str) -> Judgement:
    """A Nix signing key (NAME:BASE64 of 64 bytes, the public key in the latter half) against the cache's public key."""
    secret = TOKEN[Backend.NIX]
    mend = (
        f"make a pair with `nix key generate-secret`, its public half into cache.public-key, into the secret {secret}"
    )
    name, _, text = key.strip().partition(":")
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        data = b""
    if len(data) != 64:
        return failed(f"{secret} holds no signing key of Nix (NAME:BASE64)", mend)
    if work.spec.cache is None:
        return ok(f"{secret} is the key {name}")
    public = f"{name}:{base64.b64encode(data[32:]).decode()}"
    if public != work.spec.cache.public_key:
        return failed(f"{secret} is the key {name}, which is not the pair of cache.public-key in the spec", mend)
    return ok(f"{secret} is the pair of the cache's public key {name}")


def _seconds(value: object) -> float:
    """A time of a token, in seconds since 1970; 0 for none that a clock could show."""
    return float(value) if isinstance(value, int | float) and 0 < value < 10**11 else 0


def _time(seconds: float) -> str:
    return _moment(seconds, "%Y-%m-%d %H:%M UTC")


def _day(seconds: float) -> str:
    return _moment(seconds, "%Y-%m-%d")


def _moment(seconds: float, form: str) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime(form)


CHECKS = (
    Check(name="clock", judge=clock),
    Check(name="runner", judge=runner),
    Check(name="token", judge=token),
)
