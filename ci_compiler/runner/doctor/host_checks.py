"""Checks of what any job needs: a correct clock, a supported runner, a token that outlives the work, the cache."""

from __future__ import annotations

from ci_compiler.backends.protocol import SecretEvidence
from ci_compiler.clock import TOLERANCE, day_of, minute_of
from ci_compiler.judgement import Judgement, failed, ok, skipped
from ci_compiler.runner.doctor.evidence import TRIED, Assignment, Evidence, table
from ci_compiler.runner.fence import METADATA
from ci_compiler.runner.upstream import upstream
from ci_compiler.stages import BUILD, PUBLISH
from ci_compiler.units import release, size

_SET_CLOCK = (
    "synchronise the host's clock (`timedatectl set-ntp true`, or chrony); a container uses the clock of its host"
)


def clock(_: Assignment, evidence: Evidence) -> Judgement:
    """The clock is correct. With a wrong clock, TLS and tokens fail and caches keep stale entries."""
    seen = evidence.clock
    if seen.now < upstream().written:
        return failed(f"the clock says {day_of(seen.now)}, which is before this release of ci-compiler", _SET_CLOCK)
    if seen.now + TOLERANCE < seen.newest:
        message = (
            f"the clock says {minute_of(seen.now)}, but {seen.newest_file} was changed at {minute_of(seen.newest)}"
        )
        return failed(message, _SET_CLOCK)
    if seen.synchronised is False:
        return failed(f"the clock says {minute_of(seen.now)}, and no time server synchronises it", _SET_CLOCK)
    proved = "synchronised" if seen.synchronised else "not before its files; whether it is synchronised is unknown"
    return ok(f"{minute_of(seen.now)}, {proved}")


def runner(_: Assignment, evidence: Evidence) -> Judgement:
    """GitHub still lets this version of the runner register, and is not known to give it no jobs."""
    if not evidence.runner:
        return skipped("no GitHub runner started this, and none was found (bin/Runner.Listener)")
    own, lowest, days = evidence.runner, upstream().runner, upstream().runner_days
    newer = "install a newer one from https://github.com/actions/runner/releases"
    if release(own) < release(lowest):
        return failed(f"runner {own} is no longer supported; GitHub accepts {lowest} or newer", newer)
    for last, day in upstream().runner_refused.items():
        if release(own) <= release(last) and day_of(evidence.clock.now) >= day:
            return failed(f"runner {own} may register, and gets no jobs: GitHub refuses {last} and older ones", newer)
    return ok(f"{own}; GitHub lets {lowest} or newer register, and gives jobs to a release for {days} days")


def token(work: Assignment, evidence: Evidence) -> Judgement:
    """The publishing secret is given, has the right form, and is valid until it has been used."""
    spec, names = work.spec, evidence.lacks or work.spec.publishing_secrets
    name, it, many = " and ".join(names), "them" if len(names) > 1 else "it", "s" * (len(names) > 1)
    unset = f"{name} {'are' if many else 'is'} not set"
    if not name:
        return skipped("the spec says that publishing needs no secret")
    if evidence.lacks or not evidence.secret:
        if work.stage is not PUBLISH:
            return skipped(f"{unset}; only the publish stage gets {it}")
        if not spec.required_secrets:
            return skipped(f"{unset}; publishing runs without a secret")
        if spec.publish.reviewers:
            return skipped(f"{unset}; a job gets {it} after a reviewer of {spec.publish.environment} has approved")
        return failed(
            unset, f"put {it} into the secret{many} {name} of GitHub's environment {spec.publish.environment}"
        )
    # The token must remain valid for the longest remaining build and the publishing after it.
    longest = max(max(package.minutes.values()) for package in spec.packages.values())
    publishing = max(spec.timeouts[PUBLISH], longest)
    return spec.backend.check_secret(
        SecretEvidence(
            text=evidence.secret,
            name=name,
            now=evidence.clock.now,
            minutes=publishing if work.stage is PUBLISH else spec.timeouts[BUILD] + publishing,
            owner=spec.owner,
            cache=spec.cache,
            machine=evidence.machine,
            answer=evidence.answer,
        )
    )


def cache(work: Assignment, evidence: Evidence) -> Judgement:
    """The spec's binary cache answers."""
    if work.spec.cache is None:
        return skipped("the spec has no cache")
    url, answer = work.spec.cache.url, evidence.cache
    if answer is None:
        return skipped(f"{url} was not checked: nix is not on PATH")
    if answer.status == 0:
        return ok(f"{url} answers")
    return failed(f"{url} does not answer: {answer.said}", "give the runner's user access to it, or change cache.url")


def egress(_: Assignment, evidence: Evidence) -> Judgement:
    """A job's container reaches no service of a cloud that gives out the machine's credentials."""
    if not evidence.fence:
        return skipped("not in a container of `ci-runner start`")
    if evidence.reached:
        fix = "use images and a controller of one release; the controller closes the network before a job starts"
        return failed(f"a job reaches {', '.join(evidence.reached)}", fix)
    return ok(f"no route to {len(METADATA)} addresses")


def disk(_: Assignment, evidence: Evidence) -> Judgement:
    """The disk returns what is written to it."""
    if not evidence.disk:
        return ok(f"{size(TRIED)} were read back as they were written")
    return failed(evidence.disk, "look for errors of the disk in the kernel's log, then test the disk and the memory")


CHECKS = table(clock, runner, token, cache, egress)
DEEP = table(disk)
