"""What `ci-compile sync --push` starts on GitHub, and what it must not start at once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from ci_compiler.codes import Code
from ci_compiler.errors import Finding, about, raise_any
from ci_compiler.github.client import Client
from ci_compiler.github.waves import start_waves
from ci_compiler.plan.job_graph import built_after
from ci_compiler.plan.limits import beyond_filters
from ci_compiler.plan.pipeline import Plan
from ci_compiler.recipes.affected import with_importers
from ci_compiler.reports.load import load_of
from ci_compiler.sync.branches import BranchPlan
from ci_compiler.units import counted
from ci_compiler.variant import RECIPES, SHARED, recipe_path


def started_by(decided: Plan, plans: Sequence[BranchPlan]) -> dict[str, tuple[str, ...]]:
    """The variants that a push of `plans` builds, by branch: those whose recipe changes, and those that need them."""
    return {plan.branch: tuple(_started(decided, plan.branch, _changed(plan))) for plan in plans if plan.changes}


def _changed(plan: BranchPlan) -> Collection[str]:
    """The paths that change, and the recipes that share a file that does."""
    if not any(path.startswith(f"{SHARED}/") for path in plan.changes):
        return plan.changes
    texts = {path: text for path, text in plan.files.items() if path.startswith((f"{RECIPES}/", f"{SHARED}/"))}
    return with_importers(texts, {path: path for path in plan.changes})


def _started(decided: Plan, branch: str, changes: Collection[str]) -> Iterator[str]:
    packages = decided.spec.packages.values()
    shared = {
        package.name for package in packages if any(path in changes for path in (*package.shared, *package.overlays))
    }
    for cell in decided.judged.cells:
        if cell.branch == branch:
            changed = {v.package for v in cell.variants if recipe_path(v.name) in changes or v.package in shared}
            for variant in cell.variants:
                if not changed.isdisjoint({variant.package, *built_after(decided.spec, variant.package)}):
                    yield variant.name


def check_starts(decided: Plan, plans: Sequence[BranchPlan], say: Callable[[str], object], *, waves: bool) -> None:
    """Says what the push starts. Raises InputError for what GitHub would cancel or overlook, unless in `waves`."""
    names = started_by(decided, plans)
    chosen = {(branch, name) for branch, found in names.items() for name in found}
    load = load_of(decided, chosen, publish=decided.spec.publish.on_push)
    if chosen:
        say(f"the push starts {load}")
    findings = [] if waves else [*_too_many_files(plans)]
    if load.refusal and not waves:
        findings.append(about("--push", Code.QUEUE_TOO_LONG, load.refusal))
    raise_any(findings)


def _too_many_files(plans: Sequence[BranchPlan]) -> Iterator[Finding]:
    for plan in plans:
        if said := beyond_filters("the push", len(plan.changes)):
            message = f"{said}; `--waves` starts the shards that changed by a workflow instead"
            yield about(plan.branch, Code.TOO_MANY_FILES, message)


def start_in_waves(client: Client, decided: Plan, names: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Starts the waves of each branch; yields the URLs of their runs. Raises GitHubError, InputError."""
    for branch, found in names.items():
        own = [name for shard in decided.shards if shard.branch == branch for name in shard.variants]
        if found:
            inputs = {"branch": branch, "about": f"{counted(len(found), 'variant')} of {branch}"}
            patterns = {} if len(found) == len(own) else {"patterns": " ".join(found)}
            publish = {"publish": "true"} if decided.spec.publish.on_push else {}
            yield start_waves(client, decided, inputs | patterns | publish)
