"""The workflow of a shard: one job per cell, run by dispatch, or by pushes to its branch's recipes.

What is the same in every shard stands in workflows that they call (`shard_called`).

A run that will publish begins with a preflight on each pool that publishes. A missing token then fails the run before
anything is built. The run ends with one job per pool that publishes all variants that may be, so that reviewers of the
environment approve once per run and pool.
"""

from __future__ import annotations

from collections.abc import Sequence

from ci_compiler.hardware import CPU
from ci_compiler.plan.job_graph import built_after
from ci_compiler.plan.joins import cells_by_build
from ci_compiler.plan.matrix import Cell
from ci_compiler.plan.needs import Needs, hands_files
from ci_compiler.plan.sharding import ALL, UNPUBLISHED, Shard
from ci_compiler.plan.sources import locks_of, path_filters, shared_patterns
from ci_compiler.spec.model import Pool, Spec
from ci_compiler.spec.packages import RecipeKind
from ci_compiler.spec.triggers import PROFILE, SINCE
from ci_compiler.spec.versions import NIGHT, has_nights
from ci_compiler.stages import BUILD, PUBLISH
from ci_compiler.units import reached
from ci_compiler.variant import RECIPES, cell_suffix, recipe_path, variant_name
from ci_compiler.workflows import called, shard_called
from ci_compiler.workflows.common import (
    REPORTED,
    SELECT,
    SELECTED,
    SHARD_PREFLIGHT,
    SHARD_PUBLISH,
    SHARD_SELECT,
    SHARD_VERDICT,
    VERDICT,
    expression,
    local,
    queued,
)
from ci_compiler.workflows.joined import MANIFESTS
from ci_compiler.workflows.joined import values as joined_values
from ci_compiler.workflows.model import READ, CallJob, Permissions, Workflow, input_node
from ci_compiler.workflows.steps import ENDED, FINDS_EARLIER, leaves_out, only_here, verdict_permissions
from ci_compiler.workflows.variant import reported_as
from ci_compiler.workflows.writer import Node

_SAID = expression(f"toJSON(needs.{SELECT}.outputs)")
"""What `SELECT` said, as one JSON object."""

_REQUESTED = expression("inputs.request && format(' [{0}]', inputs.request) || ''")
_WHAT = expression("inputs.only && 'a selection' || inputs.variant || github.event_name")
_SINCE = expression(f"inputs.{SINCE} && format(' {{0}} since {{1}}', inputs.{PROFILE}, inputs.{SINCE}) || ''")
"""What the title of a run says that builds what changed (`github.batches`)."""

_MAY_PUBLISH = {True: "github.event_name == 'push' || inputs.publish == true", False: "inputs.publish == true"}
"""Whether a run may publish, by whether pushes publish."""

VERDICT_TITLE = "Verdict"
"""The name of the job that states whether the run of a shard succeeded."""


def workflow(spec: Spec, shard: Shard) -> Workflow:
    """The workflow of `shard`."""
    publishes = spec.branches[shard.branch].publish
    publish: Node = expression(_MAY_PUBLISH[spec.publish.on_push]) if publishes else False
    select = CallJob(
        name="Select",
        if_=only_here(spec),
        uses=local(SHARD_SELECT),
        permissions=FINDS_EARLIER if leaves_out(spec) else None,
        with_={shard_called.SHARD: shard.name, shard_called.BRANCH: shard.branch},
    )
    jobs = (_preflights(spec, shard) if publishes else {}) | _cells(spec, shard)
    if publishes:
        jobs |= _publications(spec, shard)
    verdict = CallJob(
        name=VERDICT_TITLE,
        needs=[SELECT, *jobs],
        if_=only_here(spec, expression("always()")),
        uses=local(SHARD_VERDICT),
        permissions=_beyond_read(verdict_permissions(spec)),
        with_={SELECTED: _SAID, shard_called.RESULTS: expression(ENDED), shard_called.PUBLISH_ASKED: publish},
    )
    group = [
        shard.name,
        expression("github.ref"),
        expression("inputs.only && github.run_id || inputs.variant || github.run_id"),
        expression("inputs.publish"),  # so that a run that publishes nothing never waits for an approval
        expression("inputs.again"),
        *([expression(f"inputs.{PROFILE}")] if spec.profiles.started else ()),
    ]
    return Workflow(
        name=shard.title,
        run_name=f"{shard.title}{_REQUESTED} ({_WHAT}){_SINCE if _batched(spec) else ''}",
        on=_triggers(spec, shard),
        permissions=READ,
        concurrency=queued("-".join(group)),
        jobs={SELECT: select, **jobs, VERDICT: verdict},
    )


def _beyond_read(permissions: Permissions) -> Permissions | None:
    """`permissions` for a job of a shard, whose workflow grants `READ` to all of them."""
    return None if permissions == READ else permissions


def _triggers(spec: Spec, shard: Shard) -> dict[str, Node]:
    choices: list[Node] = [ALL, UNPUBLISHED, *shard.variants]
    inputs: dict[str, Node] = {
        "variant": input_node("What to build.", "choice", default=ALL, options=choices),
        "only": _text("Names, with wildcards, separated by blanks: of what to build, these alone."),
        "request": _text("The request of waves.yml that this run belongs to."),
    }
    if spec.branches[shard.branch].publish:
        inputs["publish"] = _switch(f"Publish what passes its tests (only from {shard.branch}).")
    if has_nights(spec):
        inputs[NIGHT] = _text("The date of a night (20261123), whose versions have it.")
    inputs["again"] = _switch("Test what passed before, and publish what shows as published (a changed recipe).")
    if spec.profiles.started:
        inputs[PROFILE] = _text("The profile that this run is of.")
    if _batched(spec):
        inputs[SINCE] = _text("Of a profile: build what changed since this commit.")
    if spec.profiles.push.batch:
        return {"workflow_dispatch": {"inputs": inputs}}
    return {
        "workflow_dispatch": {"inputs": inputs},
        "push": {"branches": [shard.branch], "paths": _paths(spec, shard)},  # Assumes `path-filters`, `push-branches`.
    }


def _batched(spec: Spec) -> bool:
    """Whether runs of a profile build what changed since a commit."""
    return any(spec.profiles.started.values())


def _text(description: str) -> Node:
    """A string that nobody has to give, which is GitHub's default."""
    return {"description": description}


def _switch(description: str) -> Node:
    """A switch that is off, which is GitHub's default."""
    return {"description": description, "type": "boolean"}


def _paths(spec: Spec, shard: Shard) -> list[str]:
    """The patterns of the recipes of this shard: one per package and Python, and one per name without an ISA.

    Recipes that the repository writes itself may also be folders. A package with compiler seeds takes host code from
    another GPU's recipe: those of all GPUs are here, so that no variant changes the file of another shard. Then what
    the packages' recipes read: a path matches the file, and with `/**` what is in the folder. Then what thin recipes
    share, and last the locks of recipes without a pin. Without recipes, the patterns are those of what its builds read.
    """
    if not spec.backend.has_recipes:
        own = dict.fromkeys(variant.package for cell, _ in shard.cells for variant in cell.variants)
        others = (other for one in own for other in built_after(spec, one)) if spec.has_edges else ()
        return path_filters(spec, dict.fromkeys([*own, *others]))
    found: dict[str, None] = {}
    packages: dict[str, None] = {}
    shared: dict[str, None] = {}
    locks: dict[str, None] = {}
    for cell, _ in shard.cells:
        for variant in cell.variants:
            whole, has_isa = variant.name, variant.name.endswith(f"-{cell.value('isa') or None}")
            name = f"{whole.removesuffix(f'-{cell.isa}')}-*" if has_isa else whole
            found[recipe_path(name)] = None
            shared |= dict.fromkeys(shared_patterns(spec, cell, variant))
            if spec.packages[variant.package].kind_of(variant.name) is RecipeKind.OWN:
                found[f"{RECIPES}/{name}/**"] = None
            if spec.packages[variant.package].compiler_seed and cell.target != CPU:
                any_gpu = cell_suffix(python=cell.python, toolkit=cell.toolkit, target="*", isa="*")
                found[recipe_path(variant_name(variant.package, any_gpu))] = None
            packages[variant.package] = None
            locks |= dict.fromkeys(locks_of(spec, cell, variant))
    for package in map(spec.packages.__getitem__, packages):
        found |= {pattern: None for path in package.shared for pattern in (path, f"{path}/**")}
        found |= dict.fromkeys(package.overlays)
    return [*found, *shared, *locks]


def preflight_id(pool: Pool) -> str:
    """The id of the job that checks `pool` before a run that publishes."""
    return f"preflight-{pool.name}"


def _preflights(spec: Spec, shard: Shard) -> dict[str, CallJob]:
    """The jobs that check what publishing will need, on the pools that publish."""
    asked = _MAY_PUBLISH[spec.publish.on_push]
    some = f"needs.{SELECT}.outputs.chosen != '[]' && github.ref == 'refs/heads/{shard.branch}'"
    return {
        preflight_id(pool): CallJob(
            name=f"Preflight on {pool.name}",
            needs=[SELECT],
            if_=expression(f"{some} && ({asked})"),
            uses=local(SHARD_PREFLIGHT),
            with_={SELECTED: _SAID, called.MACHINE: called.machine(pool)},
            secrets=(not spec.publish.reviewers and called.secret_passed(spec)) or None,
        )
        for pool in shard.publish_pools
    }


def publication_id(pool: Pool) -> str:
    """The id of the job that publishes from `pool`."""
    return f"publish-{pool.name}"


def publication_name(pool: Pool) -> str:
    """The name of the job that publishes from `pool`, by which `status` recognizes it (`job_in_shard`)."""
    return f"Publish on {pool.name}"


def job_in_shard(name: str) -> str:
    """The name of a job in the file of a shard, of the name on GitHub of a job that it calls."""
    return name.partition(" / ")[0]


def _publications(spec: Spec, shard: Shard) -> dict[str, CallJob]:
    """The jobs that publish, one per pool, each after all cells whose variants it publishes.

    A job is skipped if all of its cells were, so that nobody is asked to approve nothing. `ci-runner publish-run`
    decides from the artifacts which variants passed.
    """
    before = _jobs_before(spec, shard)
    on_branch = f"github.ref == 'refs/heads/{shard.branch}'"
    found: dict[str, CallJob] = {}
    for pool in shard.publish_pools:
        cells = [cell for cell, route in shard.cells if route.pools.get(PUBLISH) is pool]
        # Those that build what its variants need report as well.
        jobs = reached(map(shard.job_id, cells), lambda job: before.get(job, ()))
        ran = " || ".join(f"needs.{job}.result != 'skipped'" for job in jobs)
        preflight = (
            f"needs.{preflight_id(pool)}"  # its output is that of an earlier attempt if it never ran in this one
        )
        ready = f"{preflight}.result == 'success' && {preflight}.outputs.{shard_called.RESULT} == 'success'"
        conditions = ["!cancelled()", f"({_MAY_PUBLISH[spec.publish.on_push]})", on_branch, ready, f"({ran})"]
        found[publication_id(pool)] = CallJob(
            name=publication_name(pool),
            needs=[SELECT, preflight_id(pool), *jobs],
            if_=expression(" && ".join(conditions)),
            uses=local(SHARD_PUBLISH),
            permissions=_beyond_read(called.publishing_permissions(spec)),
            with_={
                SELECTED: _SAID,
                shard_called.NEEDS: expression("toJSON(needs)"),  # the digests that the builds reported
                called.MACHINE: called.machine(pool),
                shard_called.MINUTES: _publishing_minutes(spec, sum(len(cell.variants) for cell in cells)),
            },
            secrets=(called.secret_passed(spec) | called.record_key_passed(spec)) or None,
        )
    return found


def _publishing_minutes(spec: Spec, variants: int) -> int:
    """The time limit of a job that publishes `variants` variants: that of one, and the usual time of the others."""
    return spec.timeouts[PUBLISH] + (variants - 1) * spec.stage_minutes[PUBLISH]


def _cells(spec: Spec, shard: Shard) -> dict[str, CallJob]:
    """The jobs of the cells. A fleet has thousands, so what several share is made once."""
    permissions = _beyond_read(called.build_permissions(spec))
    publishes, shared = spec.branches[shard.branch].publish, _shared(spec)
    routes = {id(route): route for _, route in shard.cells}
    after = _jobs_before(spec, shard)
    machines = {key: called.route_values(route) for key, route in routes.items()}
    joined = dict(cells_by_build(cell for cell, _ in shard.cells))
    together = {key: [route for cell, route in shard.cells if cell.joined == key] for key in joined}
    jobs: dict[str, CallJob] = {}
    for cell, route in shard.cells:
        before, gate = after.get(shard.job_id(cell), {}), [preflight_id(route.pools[PUBLISH])] if publishes else []
        chosen = f"contains(fromJSON(needs.{SELECT}.outputs.cells), '{cell.key}')"
        own = machines[id(route)] | called.neighbours(route)
        jobs[shard.job_id(cell)] = CallJob(
            name=shard.job_name(cell),
            needs=[SELECT, *gate, *before],
            if_=expression(" && ".join([*_ready(gate, at_all=bool(before)), *before.values(), chosen])),
            uses=local(called.called_file(cell)),
            permissions=permissions,
            with_={
                **_subject(spec, cell, joined.get(cell.joined, ())),
                **shared,
                **({REPORTED: expression("toJSON(needs)")} if before and hands_files(spec) else {}),
                **(called.route_values(*together[cell.joined]) if cell.joined else own),
            },
        )
    return jobs


def _shared(spec: Spec) -> dict[str, Node]:
    """The inputs that all cells of the shard are given."""
    return {SELECTED: _SAID, **called.versions_passed(spec)}


def _jobs_before(spec: Spec, shard: Shard) -> dict[str, dict[str, str]]:
    """The other jobs of the shard that build what a job's variants need, each with the condition that it did."""
    cells = [cell for cell, _ in shard.cells]
    needs = Needs(spec, cells)
    found: dict[str, dict[str, str]] = {}
    for cell in cells:
        for variant in cell.variants:
            # The files of what is needed come from all of these jobs, and the digests with them.
            reached_there = needs.every if hands_files(spec) else needs.of
            for other, needed in reached_there(cell, variant.package):
                if (job := shard.job_id(other)) != shard.job_id(cell):
                    output = MANIFESTS if other.joined else reported_as(spec, other, needed)[BUILD]
                    # Assumes `outputs-rerun`, `outputs-rerun-failed`.
                    built = f"(needs.{job}.result == 'skipped' || needs.{job}.outputs.{output} != '')"
                    found.setdefault(shard.job_id(cell), {})[job] = built
    return found


def _ready(preflights: Sequence[str], *, at_all: bool = False) -> list[str]:
    """Expressions that are true after the selection and `preflights`, which a run that does not publish skips.

    Without any, none is needed, except where a job waits for others `at_all`.
    """
    # Assumes `implicit-success`.
    if not preflights and not at_all:
        return []
    passed = [f"(needs.{job}.result == 'success' || needs.{job}.result == 'skipped')" for job in preflights]
    return ["!cancelled()", f"needs.{SELECT}.result == 'success'", *passed]


def _subject(spec: Spec, cell: Cell, joined: Sequence[Cell]) -> dict[str, Node]:
    if joined:
        return {**joined_values(joined), **called.joined_values(spec, joined)}
    if cell.called:
        return {"name": cell.called, **called.package_values(spec, cell)}
    return {"cell": cell.suffix, **called.shard_values(spec, cell)}
