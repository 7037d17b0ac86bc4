"""What a new fleet lacks, and what makes each, found without asking GitHub or a machine.

The order is that in which nothing is built or published before all that it needs is there.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ci_compiler.checkout import head_branch
from ci_compiler.codes import Code
from ci_compiler.errors import InputError
from ci_compiler.github.access import repository_of
from ci_compiler.github.reliance import OPTIONAL, reliance
from ci_compiler.plan.pipeline import Plan

EXAMPLE = "packages.example.org"
"""The host of the index that the starters publish to."""


def missing(decided: Plan, root: Path) -> Iterator[str]:
    """What `decided` needs and a compile does not make, with the command or the place that makes it, in order."""
    spec = decided.spec
    yield from _repository(spec.owner, root)
    if "==" in spec.toolkit:
        yield f"{spec.toolkit} in the package index: `toolkit` in the spec names a commit or a wheel instead"
    if examples := [name for name, package in spec.packages.items() if EXAMPLE in str(package.command)]:
        named = ", ".join(examples)
        yield f"an index for {named}: `install` and `publish` in the spec name yours, in place of {EXAMPLE}"
    if Code.NO_CACHE in {finding.code for finding in decided.warnings}:
        key = "nix-store --generate-binary-cache-key my-cache-1 secret.key public.key"
        yield f"a cache between the machines: {key}, and `cache` in the spec"
    environments = reliance(decided).environments
    yield f"settings, and environments {', '.join(sorted(environments))}: ci-compile settings --write | sh"
    for name, used in sorted(environments.items()):
        for secret in sorted(used.secrets - OPTIONAL):
            yield f"secret {secret}: gh secret set {secret} --env {name}"
    yield "settings and secrets, checked: ci-compile settings --check"
    for pool in spec.pools:
        if not pool.hosted:
            checked = f"ci-runner doctor --pool {pool.name}"
            yield f"runner of {pool.name}: {checked} && ci-runner start {pool.name}"
    # Assumes `skip-ci`.
    commit = "git add . && git commit --allow-empty -m 'Start the fleet [skip ci]'"
    yield f"the files on GitHub, with no build yet: {commit} && git push --set-upstream origin HEAD"
    yield f"one variant: ci-compile dispatch {decided.shards[0].variants[0]} --publish --wait"
    yield "then everything: ci-compile dispatch '*' --publish"
    yield "from then on, each push, if it is to publish: `publish: {on-push: true}` in the spec"


def _repository(owner: str, root: Path) -> Iterator[str]:
    if not head_branch(root):
        yield "a git repository: git init --initial-branch main"
    try:
        repository_of({}, root)
    except InputError:
        yield f"a repository on GitHub: gh repo create {owner}/{root.resolve().name} --source . --private"
