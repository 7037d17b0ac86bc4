"""What each profile builds and publishes, before and after a change of the spec."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ci_compiler.plan.pipeline import Plan
from ci_compiler.plan.profiles import conditions_of
from ci_compiler.reports.without import of_profile
from ci_compiler.spec.triggers import Profiles
from ci_compiler.units import counted


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileScope:
    """How many variants a profile builds, which tests it leaves out, and whether it publishes."""

    variants: int
    published: bool
    left_out: tuple[str, ...] = ()

    def __str__(self) -> str:
        without = f"without {' and '.join(self.left_out)}, " if self.left_out else ""
        return f"{counted(self.variants, 'variant')}, {without}{'published' if self.published else 'not published'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileChange:
    """A profile before and after a change; None where the spec does not declare it."""

    name: str
    before: ProfileScope | None
    after: ProfileScope | None

    def __str__(self) -> str:
        before, after = (str(scope or "not declared") for scope in (self.before, self.after))
        return f"the profile {self.name}: {after}{'' if before == after else f' (before: {before})'}"


def profile_changes(before: Plan, after: Plan) -> tuple[ProfileChange, ...]:
    """What each profile builds and publishes, if one of the specs declares profiles."""
    if before.spec.profiles == after.spec.profiles == Profiles():
        return ()
    names = dict.fromkeys([*before.spec.profiles.variants, *after.spec.profiles.variants])
    return tuple(ProfileChange(name=name, before=_of(before, name), after=_of(after, name)) for name in names)


def of_profile_in_both(before: Plan, after: Plan, profile: str) -> tuple[Plan, Plan]:
    """What of two plans a profile builds: nothing of the one whose spec does not have it.

    Raises InputError if neither has it.
    """
    if not any(profile in plan.spec.profiles.variants for plan in (before, after)):
        conditions_of(after.spec, profile)
    return _of_profile(before, profile), _of_profile(after, profile)


def _of_profile(plan: Plan, profile: str) -> Plan:
    if profile in plan.spec.profiles.variants:
        return of_profile(plan, profile)
    return replace(plan, judged=replace(plan.judged, cells=()), routes=(), shards=())


def _of(plan: Plan, name: str) -> ProfileScope | None:
    if name not in plan.spec.profiles.variants:
        return None
    published = plan.spec.profiles.publishes(name, on_push=plan.spec.publish.on_push)
    built = of_profile(plan, name).shards
    left_out = tuple(map(str, plan.spec.profiles.left_out(name)))
    return ProfileScope(variants=sum(len(shard.variants) for shard in built), published=published, left_out=left_out)
