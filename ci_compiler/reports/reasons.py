"""The sentences of an answer: why a variant is the best, why none fits, what an alternative lacks.

The sentences are templates in `select.json`. This module fills in what it knows. Values of one machine or one variant
(`{driver}`, `{branch}` …) remain placeholders, which `fill` replaces. The finder page gets the templates with these
placeholders and fills them in the same way.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from functools import cache
from pathlib import Path

from ci_compiler.hardware import CPU, Hardware
from ci_compiler.hardware.families import DEFAULT, facts, family_of
from ci_compiler.hardware.workloads import Workload
from ci_compiler.reports.offers import Offer, Profile, Wishes, runs_code


@cache
def say(key: str, **values: object) -> str:
    """The sentence called `key`, with `values` in place of their placeholders; other placeholders remain."""
    return fill(_sentences()[key], values)


def fill(text: str, values: Mapping[str, object]) -> str:
    """`text` with `values` in place of their placeholders; other placeholders remain."""
    return re.sub(r"\{([a-z]+)\}", lambda found: str(values.get(found[1], found[0])), text)


def of_offer(offer: Offer) -> dict[str, object]:
    """The values for sentences about `offer`."""
    return asdict(offer) | {"needed": offer.driver}


def where(wishes: Wishes) -> str:
    """The part of a sentence that names the branch and the Python that were asked for; '' for neither."""
    branch = say("where-branch", branch=wishes.branch) if wishes.branch else ""
    return branch + (say("where-python", python=wishes.python) if wishes.python else "")


def instead(wishes: Wishes, offer: Offer) -> str:
    """Which of `wishes` to give up for `offer`."""
    asked_for = (
        ("branch", wishes.branch, offer.branch),
        ("python", wishes.python, offer.python),
        ("toolkit", wishes.toolkit, offer.toolkit),
    )
    return listed(
        say(f"need-{axis}", asked=asked, **of_offer(offer)) for axis, asked, own in asked_for if asked not in {"", own}
    )


# Why nothing, or no GPU variant, fits.


def impossible(profile: Profile) -> str:
    """Why no machine can have this GPU and this CPU."""
    summary, systems = (profile.gpu.summary, profile.gpu.systems) if profile.gpu else ("", ())
    return say("impossible", summary=summary, systems=listed(systems), host=profile.system)


def unserved_gpu(hardware: Hardware, profile: Profile, wanted: Iterable[Offer], needed: int) -> str:
    """Why no GPU variant among `wanted` fits; `needed` is the lowest driver with which one does, 0 for none."""
    if needed:
        return say("gpu-driver", needed=needed)
    if profile.gpu and profile.gpu.on_chip and profile.gpu.name not in {offer.target for offer in wanted}:
        return say("gpu-on-chip", chip=facts(profile.gpu.family, "words")["on-chip"])
    if profile.gpu is None:
        return say("gpu-unknown")
    run = [offer for offer in wanted if runs_code(hardware, profile, offer.target)]
    here = [offer for offer in run if offer.system == profile.system]
    if not run:
        return say("gpu-unbuilt")
    if not here:
        return say("gpu-system", systems=listed(offer.system for offer in run), host=profile.system)
    return say("gpu-isa", isas=_least(hardware, here), has=listed(profile.isas))


def unserved(hardware: Hardware, profile: Profile, wanted: Iterable[Offer]) -> str:
    """Why nothing among `wanted` fits, not even a CPU-only variant."""
    system = hardware.systems.get(profile.system)
    wanted = list(wanted)
    opened = any(offer.values for offer in wanted)
    if system and system.os != "Linux" and not opened and not any(offer.system == system.name for offer in wanted):
        linux = next(
            other for other in hardware.systems.values() if other.os == "Linux" and other.label == system.label
        )
        return say("none-os", os=system.os, linux=linux.name)
    here = [offer for offer in wanted if offer.system == profile.system and offer.target == CPU]
    kits = [offer.kit for offer in wanted if opened and offer.system == profile.system and offer.target != CPU]
    if not here and kits:
        return say("none-cpu", host=profile.system, families=listed(kits))
    if not here:
        return say("none-system", host=profile.system)
    return say("none-isa", isas=_least(hardware, here), has=listed(profile.isas), host=profile.system)


# Why a variant is the best.


def why(
    profile: Profile, wishes: Wishes, best: Offer, *, newest: bool, later: Offer | None, known: bool
) -> Iterator[str]:
    """Why `best` is the best for the GPU, the branch and the driver; nothing on the driver if it is unknown.

    `newest`: its branch is the newest one. `later`: the best variant with any driver, if that is another one. `known`:
    the machine's driver is known.
    """
    if best.target == CPU:
        yield say("cpu-only" if profile.has_gpu else "no-gpu")
    elif best.values and "target" not in dict(best.values):
        yield say("gpu-family", kit=best.kit)
    else:
        own = family_of(profile.gpu.family).named(profile.gpu.name) if profile.gpu else ""
        yield say("gpu-own" if best.target == own else "gpu-nearest")
    if wishes.branch:
        yield say("branch-asked")
    elif later and best.target != CPU:
        yield say("branch-driver", newer=later.toolkit, needed=later.driver, kit=best.kit)
    else:
        newest_of_all = "branch-newest-toolkit" if best.toolkit else "branch-newest"
        yield say(newest_of_all if newest else "branch-serves", kit=best.kit)
    if best.driver and known:
        yield say("driver-runs", kit=best.kit)


def doubts(profile: Profile, best: Offer | None) -> tuple[str, ...]:
    """What has to be checked before `best` is installed on a machine whose driver is unknown."""
    if best is None or not best.driver:
        return ()
    last = profile.gpu.last_driver if profile.gpu else 0
    words = {"kit": best.kit, "tool": family_of(DEFAULT).tool}
    return (say("driver-unknown-last", last=last, **words) if last else say("driver-unknown", **words),)


def why_isa(hardware: Hardware, profile: Profile, workload: Workload, best: str, wanted: str) -> str:
    """Why the ISA `best` was chosen; `wanted` is the ISA that suits `workload` best, of those that the CPU runs."""
    suited = workload.isa
    if suited and best == suited:
        return say("isa-suited", workload=workload.words)
    if suited and hardware.isa(suited).system == profile.system:
        return say("isa-unbuilt" if suited in profile.isas else "isa-lacks", suited=suited, workload=workload.words)
    others = [one for one in Workload if one.isa in profile.isas and one.isa != best]
    if others and best in hardware.runs([others[0].isa]):
        theirs = listed(one.words for one in others)
        return say("isa-general", others=listed(one.isa for one in others), theirs=theirs)
    return say("isa-best" if best == wanted else "isa-built")


def is_undecided(hardware: Hardware, offer: Offer) -> bool:
    """Whether the CPU of users who do not know theirs runs `offer`."""
    return offer.isa in hardware.runs([hardware.systems[offer.system].undecided], offer.system)


def unknown_cpu(hardware: Hardware, best: Offer) -> str:
    """Why `best` has its instruction set on a machine whose CPU is not known."""
    key = "isa-undecided" if is_undecided(hardware, best) else "isa-portable"
    return say(key, isa=best.isa, cpus=hardware.isa(best.isa).cpus)


# How an alternative differs.


def alternative(hardware: Hardware, axis: str, best: Offer, other: Offer) -> str:
    """The sentence about `other`, which differs from `best` only in `axis`."""
    if axis == "target":
        return say("other-cpu" if other.target == CPU else "other-gpu")
    if axis == "branch":
        return say("other-version" if other.target == CPU else "other-branch", kit=other.kit)
    if axis in {"python", "toolkit"}:
        return say(f"other-{axis}", kit=other.kit)
    if axis != "isa":
        return say("other-value", axis=axis, chosen=dict(other.values).get(axis) or say("nothing"))
    workload = next((one for one in Workload if one.isa == other.isa), None)
    if workload:
        return say("other-workload", workload=workload.words)
    return say("other-isa" if other.isa in hardware.runs([best.isa]) else "other-lesser", unused=best.isa)


@cache
def _sentences() -> Mapping[str, str]:
    found: dict[str, str] = json.loads(Path(__file__).with_name("select.json").read_bytes())["sentences"]
    return found


def listed(words: Iterable[str]) -> str:
    """`a, b and c`, without duplicates."""
    *most, last = dict.fromkeys(words) or [say("nothing")]
    return f"{', '.join(most)} {say('and')} {last}" if most else last


def _least(hardware: Hardware, offers: Iterable[Offer]) -> str:
    """The ISAs of `offers` that include no other ISA of them."""
    built = {offer.isa for offer in offers}
    names = [name for name in hardware.isas if name in built]
    return listed(name for name in names if not (hardware.runs([name]) - {name}) & built)
