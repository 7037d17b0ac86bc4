"""The order in which waves start shards, where variants take compiler seeds from those of other shards.

A seed reaches other builders through the cache, so a shard that takes seeds starts after the one that makes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from ci_compiler.plan.job_graph import PlannedJob
from ci_compiler.plan.pipeline import Plan
from ci_compiler.plan.records import Key
from ci_compiler.recipes.seeds import seeder_of
from ci_compiler.variant import variant_name


def seeders(plan: Plan) -> dict[Key, Key]:
    """The variant from whose recipe the seed of each variant is made, if it is another one, and the cache has seeds."""
    spec, cells = plan.spec, plan.judged.cells
    if spec.cache is None or spec.cache.public:
        return {}
    return {
        (cell.branch, variant.name): (cell.branch, variant_name(variant.package, seeder.suffix))
        for cell in cells
        for variant in cell.variants
        if (seeder := seeder_of(spec, cells, cell, variant.package)) and seeder != cell
    }


def seeders_first(shards: Sequence[Sequence[PlannedJob]], seeded: Mapping[Key, Key]) -> list[Sequence[PlannedJob]]:
    """The jobs of `shards`, those of each shard after those of the shards that it takes seeds from.

    A seed is that of the first GPU in the spec's order, so no two shards take seeds from each other.
    """
    shard_of = {job.key: index for index, jobs in enumerate(shards) for job in jobs}

    @cache
    def level(index: int) -> int:
        keys = {job.key for job in shards[index]}
        return max((level(shard_of[one]) + 1 for one in taken(keys, seeded) if one in shard_of), default=0)

    return [shards[index] for index in sorted(range(len(shards)), key=level)]


def taken(keys: Iterable[Key], seeded: Mapping[Key, Key]) -> set[Key]:
    """The variants from which those of `keys` take their seeds."""
    return {seeded[key] for key in keys if key in seeded}
