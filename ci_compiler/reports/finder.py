"""The decisions about the variants of a package: for a machine, the best one with each driver that it may have.

The finder page contains the answers for all machines (`site/tables.py`), so that JavaScript decides nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property

from ci_compiler.hardware import CPU, Gpu, System
from ci_compiler.hardware.drivers import too_new_driver
from ci_compiler.hardware.workloads import Workload
from ci_compiler.plan.matrix import Cell
from ci_compiler.reports import reasons
from ci_compiler.reports.evidence import Proofs
from ci_compiler.reports.offers import (
    Offer,
    Profile,
    Wishes,
    branch_order,
    declared_axes,
    fits,
    fits_cpu,
    isa_order,
    offers,
    recalled,
)
from ci_compiler.spec.model import Spec

_AXES = ("python", "isa", "toolkit", "branch", "target")
"""The axes in which variants of a package differ; alternatives are listed in the order of these axes."""

_FREE = ("branch", "target")
"""The axes along which the toolkit changes too: another branch has others, and a CPU-only variant has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """An offer that is not the best, with the reason or with what it would need, and the verdict of its tests."""

    offer: Offer
    note: str
    tests: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FinderStep:
    """The answer from `driver` on, up to the driver of the next step. `best` None: nothing fits.

    `doubts`: what has to be checked, because the driver is unknown. `better`: better variants, which need another
    driver. `nearest`: the variant with the lowest demands on the CPU, if nothing fits. `impossible`: no such machine
    exists.
    """

    driver: int
    best: Offer | None
    problems: tuple[str, ...] = ()
    why: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    better: tuple[Noted, ...] = ()
    nearest: Offer | None = None
    impossible: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FinderAnswer:
    """The answers for a machine by driver: `steps` from driver 0 upwards, and `unknown` for an unknown driver."""

    steps: tuple[FinderStep, ...]
    unknown: FinderStep

    def at(self, driver: int) -> FinderStep:
        """The answer with `driver` (0: not known)."""
        return [step for step in self.steps if step.driver <= driver][-1] if driver else self.unknown


class Finder:
    """The decisions about the variants of one package, of whose tests `known` is known."""

    def __init__(self, spec: Spec, cells: Iterable[Cell], package: str, known: Proofs) -> None:
        self.spec, self.hardware, self.package = spec, spec.hardware, package
        self._cells = tuple(cells)
        self._newest = next(iter(branch_order(spec, package)), "")
        toolkits = spec.branches[self._newest].toolkits if self._newest else ()
        self._newest_toolkit = max(toolkits, key=lambda one: spec.hardware.toolkit(one).version, default="")
        self._isas = cache(lambda workload: isa_order(spec.hardware, workload))
        # every offer, best first, with the drivers that they need on `gpu`, with or without what is recalled
        lacks = {key: len(one.untested) for key, one in known.items()}
        self._every = cache(lambda gpu, workload: offers(spec, self._cells, package, gpu, workload, lacks))
        self._known = known
        self._plain = cache(lambda workload: offers(spec, self._cells, package, None, workload))
        self.recalled = {
            (variant.name, cell.branch): because
            for cell in (self._cells if spec.recalls else ())
            for variant in cell.variants
            if variant.package == package and (because := recalled(spec, cell.branch, variant))
        }
        self._axes = (*_AXES, *declared_axes(spec))
        self.ranked = cache(self._ranked)
        self.fitting = cache(self._fitting)
        self._wanted = cache(lambda wishes: list(filter(wishes.allow, self.ranked(None, Workload.GENERAL))))

    def _ranked(self, gpu: Gpu | None, workload: Workload) -> list[Offer]:
        return [offer for offer in self._every(gpu, workload) if (offer.name, offer.branch) not in self.recalled]

    def _fitting(self, profile: Profile, workload: Workload) -> list[Offer]:
        """The offers that the machine runs with a driver that is new enough, best first."""
        return [offer for offer in self.ranked(profile.gpu, workload) if fits(self.spec, profile, offer)]

    @cached_property
    def contested(self) -> bool:
        """Whether tests decide between variants that fit equally well."""
        return self._every(None, Workload.GENERAL) != self._plain(Workload.GENERAL)

    def _rival(self, profile: Profile, wishes: Wishes, best: Offer) -> Iterator[str]:
        """The variant that would be `best` if more of its tests had passed."""
        if not self.contested:
            return
        among = [offer for offer in self.fitting(profile, wishes.workload) if wishes.allow(offer)]
        alike = {(offer.branch, offer.name) for offer in among if _fit(offer) == _fit(best)}
        order = [offer for offer in self._plain(wishes.workload) if (offer.branch, offer.name) in alike]
        first = order[0].branch, order[0].name
        lacks = [len(self._known[key].untested) for key in (first, (best.branch, best.name))]
        if lacks[0] > lacks[1]:
            yield reasons.say("tested-first", other=first[1], on=first[0], verdict=self._known[first].verdict)

    def unknown_cpu(self, profile: Profile, wishes: Wishes) -> Profile:
        """`profile` with the CPU that stands for an unknown one: the rule of `select`, the page and BUILD_MATRIX.

        It is the CPU of users who do not know theirs (`System.undecided`) if that serves the GPU, else the weakest one
        that does, on the systems that the GPU comes with, or on the system of `profile`.
        """
        candidates = [
            replace(profile, system=system.name, isas=tuple(isa for isa in self.hardware.isas if isa in runs))
            for system in self.hardware.systems.values()
            if profile.system in {"", system.name} and (profile.gpu is None or system.name in profile.gpu.systems)
            for runs in self._undecided_first(system)
        ]
        served = []
        for one in candidates:
            best = next(filter(wishes.allow, self.fitting(one, wishes.workload)), None)
            if best and best.target != CPU:
                return one
            served += [one] if best else []
        return (served or candidates)[0]

    def _undecided_first(self, system: System) -> list[frozenset[str]]:
        """What CPUs of `system` run: the one of users who do not know theirs, then the weakest first."""
        own = [isa.name for isa in self.hardware.isas.values() if isa.system == system.name]
        every = sorted((self.hardware.runs([name], system.name) for name in own), key=len)
        return [self.hardware.runs([system.undecided], system.name), *every]

    def answer(self, profile: Profile, wishes: Wishes) -> FinderAnswer:
        """The best offer for the machine, for each driver that it may have."""
        if profile.gpu and profile.system not in profile.gpu.systems:
            step = FinderStep(driver=0, best=None, problems=(reasons.impossible(profile),), impossible=True)
            return FinderAnswer(steps=(step,), unknown=step)
        fitting = [offer for offer in self.fitting(profile, wishes.workload) if wishes.allow(offer)]
        bests = list(_bests(fitting))
        steps = [
            self._step(profile, wishes, driver, best, [later for _, later in bests[at:] if later])
            for at, (driver, best) in enumerate(bests, 1)
        ]
        best = steps[-1].best
        why = self._why(profile, wishes, best, None, known=False)
        unknown = replace(steps[-1], why=tuple(why), doubts=reasons.doubts(profile, best))
        if profile.gpu and profile.gpu.last_driver and best and best.target != CPU:
            steps.append(self._after_last_driver(profile, wishes, profile.gpu, best))
        return FinderAnswer(steps=tuple(steps), unknown=unknown)

    def _step(
        self, profile: Profile, wishes: Wishes, driver: int, best: Offer | None, later: Sequence[Offer]
    ) -> FinderStep:
        """The answer with `best`; `later` are the best offers with newer drivers."""
        problems = []
        if profile.has_gpu and (best is None or best.target == CPU):
            needed = later[0].driver if later else 0
            problems.append(reasons.unserved_gpu(self.hardware, profile, self._wanted(wishes), needed))
        if best is None:
            problems.append(reasons.unserved(self.hardware, profile, self._wanted(wishes)))
        problems += self._passed_over(profile, wishes, driver, best)
        return FinderStep(
            driver=driver,
            best=best,
            problems=tuple(problems),
            why=tuple(self._why(profile, wishes, best, later[-1] if later else None, known=True)),
            better=tuple(Noted(offer=offer, note=reasons.say("need-driver")) for offer in later),
            nearest=None if best else self._nearest(profile, wishes.workload),
        )

    def _passed_over(self, profile: Profile, wishes: Wishes, driver: int, best: Offer | None) -> Iterator[str]:
        """The variant that would be chosen instead of `best` if it were not recalled."""
        for offer in self._every(profile.gpu, wishes.workload) if self.recalled else ():
            if offer == best:
                return
            because = self.recalled.get((offer.name, offer.branch), "")
            if because and offer.driver <= driver and wishes.allow(offer) and fits(self.spec, profile, offer):
                yield reasons.say("recalled", recalled=offer.name, where=offer.branch, because=because)
                return

    def _after_last_driver(self, profile: Profile, wishes: Wishes, gpu: Gpu, before: Offer) -> FinderStep:
        """The answer with a driver that no longer runs the GPU; `before` is the best with the last one that does."""
        fitting = self.fitting(profile, wishes.workload)
        best = next((offer for offer in fitting if offer.target == CPU and wishes.allow(offer)), None)
        last = gpu.last_driver
        step = self._step(profile, wishes, too_new_driver(gpu), best, ())
        return replace(
            step,
            problems=(reasons.say("gpu-driver-ended", last=last), *step.problems[1:]),
            better=(Noted(offer=before, note=reasons.say("need-older-driver", last=last)),),
        )

    def _why(
        self, profile: Profile, wishes: Wishes, best: Offer | None, later: Offer | None, *, known: bool
    ) -> Iterator[str]:
        if best:
            newest = best.branch == self._newest and best.toolkit in {"", self._newest_toolkit}
            wanted = min(profile.isas, key=self._isas(wishes.workload).index)
            yield from reasons.why(profile, wishes, best, newest=newest, later=later, known=known)
            yield from self._rival(profile, wishes, best)
            if not best.values or "isa" in dict(best.values):
                yield reasons.why_isa(self.hardware, profile, wishes.workload, best.isa, wanted)
            if best.values:
                yield from self._choices(profile, wishes, best)

    def _choices(self, profile: Profile, wishes: Wishes, best: Offer) -> Iterator[str]:
        """What else the user may want: other values of declared axes, and other accelerators."""
        fitting = [offer for offer in self.fitting(profile, wishes.workload) if wishes.allow(offer)]
        for axis in self._axes[len(_AXES) :]:
            alike = _all_but(self._axes, axis, best)
            others = [
                dict(offer.values).get(axis, "") for offer in fitting if _all_but(self._axes, axis, offer) == alike
            ]
            own = dict(best.values).get(axis, "")
            if len(set(others)) > 1:
                others = [value for value in others if value not in {"", own}]
                yield reasons.say(
                    "choice", axis=axis, chosen=own or reasons.say("nothing"), others=reasons.listed(others)
                )
        if best.target == CPU:
            here = [one for one in self._wanted(wishes) if one.target != CPU and fits_cpu(self.spec, profile, one)]
            kits = [one.kit for one in here if one.values and one not in fitting]
            if kits:
                yield reasons.say("other-families", families=reasons.listed(kits))

    def _nearest(self, profile: Profile, workload: Workload) -> Offer | None:
        """The variant with the lowest demands on the CPU, on any branch."""
        any_cpu = replace(profile, isas=tuple(self.hardware.isas))
        order = self._isas(workload)
        return max(self.fitting(any_cpu, workload), key=lambda offer: order.index(offer.isa), default=None)

    def alternatives(self, among: Iterable[Offer]) -> Mapping[Offer, Sequence[Noted]]:
        """For each of the ranked offers `among`: those that differ from it in one axis and rank lower.

        They include all other ISAs, because the rank of an ISA depends on the workload.
        """
        alike: dict[tuple[str, ...], list[Offer]] = defaultdict(list)
        ranked = list(among)
        for offer in ranked:
            for axis in self._axes:
                alike[_all_but(self._axes, axis, offer)].append(offer)

        def others(best: Offer) -> Iterator[Noted]:
            for axis in self._axes:
                row = alike[_all_but(self._axes, axis, best)]
                for other in row if axis == "isa" else row[row.index(best) :]:
                    if other != best and _comparable(axis, best, other):
                        yield Noted(offer=other, note=reasons.alternative(self.hardware, axis, best, other))

        return {best: list(others(best)) for best in ranked}


def _fit(offer: Offer) -> tuple[str, ...]:
    """What offers have in common of which the tests decide, besides what their branches have in common."""
    return offer.target, offer.toolkit, offer.version, offer.isa, offer.system


def _bests(fitting: Sequence[Offer]) -> Iterator[tuple[int, Offer | None]]:
    """The best of the ranked offers `fitting` from driver 0 on, and from each driver at which the best one changes."""
    present: Offer | None = None
    for driver in sorted({0, *(offer.driver for offer in fitting)}):
        best = next((offer for offer in fitting if offer.driver <= driver), None)
        if not driver or best is not present:
            yield driver, best
        present = best


def _all_but(axes: Iterable[str], axis: str, offer: Offer) -> tuple[str, ...]:
    """The values that `offer` shares with offers that differ from it only in `axis`, and perhaps in the toolkit."""
    free = {axis, "toolkit"} if axis in _FREE else {axis}
    declared = dict(offer.values)
    shared = (
        getattr(offer, other) if other in _AXES else declared.get(other, "") for other in axes if other not in free
    )
    return axis, *shared, offer.system


def _comparable(axis: str, best: Offer, other: Offer) -> bool:
    """Whether the toolkits of two offers that share the rest differ only because `axis` does."""
    if axis == "branch":
        return other.branch != best.branch
    return axis != "target" or CPU in {best.target, other.target} or other.toolkit == best.toolkit
