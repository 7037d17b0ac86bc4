"""The stacks whose compiled files are explored, and what happens in each scenario."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ci_compiler.spec.build import bundled_spec, parse_spec
from ci_compiler.workflows.shard import preflight_id, publication_id
from tests.github_model.explore import Happening, Scenario, cancel, dispatch, pause, push, reruns
from tests.github_model.model import Environment, World
from tests.github_model.tree import Tree, read_tree, tree_of

ROOT = Path(__file__).parents[2]
MINIATURE = ROOT / "tests/e2e/stack/ci-matrix.yaml"

FIRST, SECOND = "a1b2", "c3d4"
"""The commits of two pushes."""

_WORDS = {
    "backend": "flox",
    "version": "0.3.0",
    "python": "3.13",
    "cache": "https://cache.example.org",
    "public-key": "store-1:0f8Hk9JvJ9bGmYVvHyuZQ6lZkkYHkS7pq2LZ4wWrbSg=",
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Stack:
    """A compiled tree, and the shard of it that is explored."""

    tree: Tree
    shard: str
    branch: str

    @property
    def file(self) -> str:
        """The workflow of the shard."""
        return f"{self.shard}.yml"

    def variants(self, *packages: int, cells: int = 1) -> list[str]:
        """Variants of the first cells of the shard, by the places of their packages."""
        (shard,) = (one for one in self.tree.plan.shards if one.name == self.shard)
        return [cell.variants[place].name for cell, _ in shard.cells[:cells] for place in packages]

    def world(self, variants: Sequence[str] = (), environments: Mapping[str, Environment] | None = None) -> World:
        """A world in which each commit changes `variants`; its environments have no reviewers."""
        names = variants or self.variants(0)
        there = {self.tree.spec.publish.environment: Environment()} if environments is None else environments
        return World(tree=self.tree, changed={FIRST: names, SECOND: names}, environments=there)

    def pushes(self) -> list[Happening]:
        """Two pushes, one after the other."""
        files = [f".flox/pkgs/{name}.nix" for name in self.variants(0)]
        second = push("second push", SECOND, self.branch, files, after="first push")
        return [push("first push", FIRST, self.branch, files), second]

    def jobs(self) -> list[str]:
        """The jobs of the first cell that a person may re-run alone, and those around it: one of each kind."""
        (shard,) = (one for one in self.tree.plan.shards if one.name == self.shard)
        (cell, _), pool = shard.cells[0], shard.publish_pools[0]
        package = self.tree.spec.packages[cell.variants[0].package].name
        inner = [f"{shard.job_id(cell)}/{package}_{stage}" for stage in ("build", "cpu-test")]
        return ["select/select", f"{preflight_id(pool)}/preflight", *inner, f"{publication_id(pool)}/publish"]


@cache
def bundled() -> Stack:
    """The bundled stack, as it is compiled in this repository, with two of its shards."""
    tree = read_tree(ROOT / ".github/workflows", bundled_spec())
    shards = ("build-cuda-13_0-sm121.yml", "build-cuda-13_0-cpu.yml")
    files = {name: one for name, one in tree.files.items() if not name.startswith("build-") or name in shards}
    return Stack(tree=Tree(tree.plan, files), shard="build-cuda-13_0-sm121", branch="cuda-13_0")


@cache
def miniature() -> Stack:
    """The miniature stack of `tests/e2e`."""
    text = MINIATURE.read_text("utf-8")
    hashes = {f"nixpkgs-hash-{branch}": f"sha256-{'A' * 43}=" for branch in ("main", "cuda-13_0")}
    for word, value in {**_WORDS, **hashes}.items():
        text = text.replace(f"@{word}@", value)
    spec = parse_spec(text.encode(), shown="ci-matrix.yaml")
    return Stack(tree=tree_of(spec), shard="build-main-sm90", branch="main")


def scenarios(stack: Stack) -> dict[str, Scenario]:
    """The scenarios of a stack by name."""
    first, second = stack.pushes()
    form = dispatch("dispatch", stack.file, stack.branch, after="first push", variant="all", publish=True)
    one, both = stack.world(), stack.world(stack.variants(0, cells=2))
    alone = reruns(1, "one", stack.jobs())
    pool = next(shard for shard in stack.tree.plan.shards if shard.name == stack.shard).publish_pools[0].name
    return {
        "two pushes with a mishap": Scenario(world=one, happenings=[first, second], mishaps=1),
        "two pushes and a dispatch": Scenario(world=one, happenings=[first, second, form]),
        "three dispatches of one choice": Scenario(world=one, happenings=_dispatches(stack, 3), tip=FIRST),
        "a push and a dispatch, one cancelled": Scenario(world=one, happenings=[first, form, cancel(1)]),
        "a push that is cancelled, and re-run": Scenario(
            world=one, happenings=[first, cancel(1), *reruns(1, "all"), *reruns(1, "failed")], mishaps=1
        ),
        "a push of which one job is re-run": Scenario(world=one, happenings=[first, *alone], mishaps=1),
        "two pushes, the first re-run": Scenario(
            world=one, happenings=[first, second, *reruns(1, "failed")], mishaps=1
        ),
        "a push, a pause and a re-run": Scenario(
            world=one, happenings=[first, *pause("all"), *reruns(1, "all"), *reruns(1, "failed")]
        ),
        "two pushes and a pause, as registered": Scenario(world=one, happenings=[first, second, *pause("all")]),
        "a push, a cancel, a pause and every re-run, as registered": Scenario(
            world=one,
            happenings=[first, cancel(1), *pause("all"), *reruns(1, "all"), *reruns(1, "failed"), *alone],
        ),
        "two cells and a pause of the publishing pool": Scenario(
            world=both, happenings=[first, *pause(f"pool:{pool}")]
        ),
        "a pull request with a mishap": request(stack, mishaps=1),
        "a pull request, a pause and a re-run": request(stack, pausing=True),
        "two requests for waves with a mishap": waves(stack, "one", "two", mishaps=1),
        "a request for waves and a pause": waves(stack, "one", pausing=True),
        "two cells and a pause": Scenario(world=both, happenings=[first, *pause("all")]),
    }


def _dispatches(stack: Stack, count: int) -> list[Happening]:
    """Dispatches of the whole shard, one after the other."""
    names = [f"dispatch {number}" for number in range(count)]
    form = {"variant": "all", "publish": True}
    befores = zip(names, ["", *names], strict=False)
    return [dispatch(name, stack.file, stack.branch, after=before, **form) for name, before in befores]


def request(stack: Stack, *, mishaps: int = 0, pausing: bool = False) -> Scenario:
    """A pull request."""
    opened = Happening(name="request", act=lambda play: play.pull_request(SECOND, stack.branch), starts=True)
    happenings = [opened, *(pause("all") if pausing else []), *(reruns(1, "failed") if pausing else [])]
    return Scenario(world=stack.world(), happenings=happenings, mishaps=mishaps, tip=FIRST)


def waves(
    stack: Stack, *requests: str, shards: Sequence[str] = (), pausing: bool = False, mishaps: int = 0
) -> Scenario:
    """Requests for waves, each of two waves of one shard; the shards publish nothing."""
    first = [shard for shard in stack.tree.plan.shards if shard.name == stack.shard]
    others = [shard for shard in stack.tree.plan.shards if shard.branch == stack.branch and shard not in first]
    shards = [*first, *others[:1]]
    names = [shard.variants[0] for shard in shards]
    world = World(tree=stack.tree, changed={FIRST: names}, waves=[[shard.name] for shard in shards])
    asked = [
        dispatch(name, "waves.yml", "main", after=before, about=name)
        for before, name in zip(("", *requests), requests, strict=False)
    ]
    return Scenario(world=world, happenings=[*asked, *(pause("all") if pausing else [])], mishaps=mishaps, tip=FIRST)
