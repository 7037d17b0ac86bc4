"""Names inside a spec: each must be declared, known to the hardware tables, and distinct from the others.

`build_spec` calls `reference_findings` for every spec, so that code that is given a `Spec` can look names up safely.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from ci_compiler.backends.protocol import CachePush
from ci_compiler.codes import Code
from ci_compiler.errors import Finding, nearest
from ci_compiler.spec.axes import SHORT_FAMILY
from ci_compiler.spec.command import Command
from ci_compiler.spec.declare import keys_of
from ci_compiler.spec.edges import circle, circle_in_words
from ci_compiler.spec.load import Path_
from ci_compiler.spec.model import Branch, Package, Spec
from ci_compiler.spec.open_references import open_findings
from ci_compiler.spec.packages import RecipeKind
from ci_compiler.spec.patterns import matcher
from ci_compiler.spec.publishers import REGISTRY
from ci_compiler.spec.recipe_keys import RecipeKeys
from ci_compiler.spec.recipe_references import placeholder_findings, proof_findings, recipe_findings
from ci_compiler.spec.shorthand.findings import short_findings
from ci_compiler.spec.triggers import Profiles
from ci_compiler.spec.unknown_names import isa_of_system, known_branches, look_up, look_up_toolkit, why_unknown
from ci_compiler.spec.work_arounds import work_arounds
from ci_compiler.stages import TestPolicy
from ci_compiler.system import DEVICE


def reference_findings(spec: Spec) -> list[Finding]:
    """An error for each name that nothing declares, and for each declaration that collides with another."""
    opened: Iterable[Finding] = open_findings(spec)
    if spec.profiles != Profiles():
        from ci_compiler.spec.open_references import profile_findings

        opened = [*opened, *profile_findings(spec)]
    if spec.has_edges:
        from ci_compiler.spec.open_references import edge_findings

        opened = [*opened, *edge_findings(spec)]
    found = [
        *short_findings(spec),
        *opened,
        *_check_branches(spec),
        *_check_packages(spec),
        *recipe_findings(spec),
        *_check_commands(spec),
        *proof_findings(spec),
        *_check_axes(spec),
        *_check_patterns(spec),
        *_check_listed(spec),
        *_check_pools(spec),
        *_check_publish(spec),
        *_check_prices(spec),
        *_check_cache(spec),
        *alike_findings(spec),
    ]
    return list(dict.fromkeys(found))  # an alias puts what is wrong below several keys


def _check_branches(spec: Spec) -> Iterator[Finding]:
    for branch in spec.branches.values():
        path = ("branches", branch.name)
        yield from _check_toolkits(spec, branch)
        for key, table in (("versions", branch.versions), ("sources", branch.sources), ("pnames", branch.pnames)):
            for name in table:
                at = (*path, key, name)
                yield from spec.unless_known(at, Code.UNKNOWN_PACKAGE, name, spec.packages, key=True)
        known = _known_work_arounds(spec)
        for index, name in enumerate(branch.work_arounds):
            yield from spec.unless_known((*path, "work-arounds", index), Code.UNKNOWN_WORK_AROUND, name, known)
        if lacking := _without_version(spec, branch):
            message = (
                f"branch {branch.name} gives no version of {' and '.join(lacking)}; add "
                f"`versions: {{{', '.join(f'{name}: VERSION' for name in lacking)}}}`, or name the branches that build "
                "it in the package's `branches`"
            )
            yield spec.finding((*path, "versions"), Code.MISSING_VERSION, message, key=True)


def _without_version(spec: Spec, branch: Branch) -> list[str]:
    """The packages that need a version on `branch` and have none, without those whose name is misspelled there."""
    unknown = [name for name in branch.versions if name not in spec.packages]
    return [
        name
        for name, package in spec.packages.items()
        if (package.may_be(RecipeKind.COMPILED) or package.may_be(RecipeKind.TEMPLATE) or package.command)
        and package.on(branch.name)
        and name not in branch.versions
        and not _sources(package)
        and not any(nearest(one, [name], only_near=True) for one in unknown)
    ]


def _sources(package: Package) -> list[str]:
    """What gives the version of a package in place of its branch, as the keys of `command.version`."""
    rule = package.command.version if package.command else None
    return [name for name in ("command", "tag") if rule and getattr(rule, name)]


def _check_toolkits(spec: Spec, branch: Branch) -> Iterator[Finding]:
    """Each toolkit is known; each pin that compiled recipes use names a nixpkgs commit and known work-arounds."""
    path: Path_ = ("branches", branch.name)
    known = _known_work_arounds(spec)
    packages = spec.packages.values() if spec.backend.has_recipes else ()
    compiled = next((package for package in packages if _compiles_on(package, branch)), None)
    for index, (kit, pin) in enumerate(branch.toolkits.items()):
        entry = _entry(spec, branch, index, kit)
        as_key = entry[-1] == kit
        yield from look_up_toolkit(spec, entry, kit, key=as_key)
        if compiled and not pin.nixpkgs:
            yield _no_nixpkgs(spec, entry, branch, compiled)
        for name in pin.work_arounds:
            if name not in branch.work_arounds:
                yield from spec.unless_known((*entry, "work-arounds"), Code.UNKNOWN_WORK_AROUND, name, known)
        for name in {*pin.sources, *pin.pnames} - {*spec.packages, *branch.sources, *branch.pnames}:
            yield from spec.unless_known(entry, Code.UNKNOWN_PACKAGE, name, spec.packages, key=as_key)
    if compiled and not branch.nixpkgs and not branch.toolkits:
        yield _no_nixpkgs(spec, path, branch, compiled)


def _known_work_arounds(spec: Spec) -> tuple[str, ...]:
    return (*work_arounds(), *spec.work_arounds)


def _entry(spec: Spec, branch: Branch, index: int, kit: str) -> Path_:
    """The path of a toolkit in the file, which has one version, a list or a mapping."""
    value = spec.document.value["branches"][branch.name][SHORT_FAMILY]
    root: Path_ = ("branches", branch.name, SHORT_FAMILY)
    if isinstance(value, str):
        return root
    return (*root, index if isinstance(value, list) else kit)


def _compiles_on(package: Package, branch: Branch) -> bool:
    return package.on(branch.name) and package.repository is None and package.may_be(RecipeKind.COMPILED)


def _no_nixpkgs(spec: Spec, path: Path_, branch: Branch, package: Package) -> Finding:
    message = f"{branch.name} names no nixpkgs commit, which the recipes of {package.name} need; add `nixpkgs: COMMIT`"
    return spec.finding((*path, "nixpkgs"), Code.MISSING_KEY, message, key=True)


def _check_packages(spec: Spec) -> Iterator[Finding]:
    for package in spec.packages.values():
        path: Path_ = ("packages", package.name)
        for key, edges in package.edges_by_kind:
            for need in edges:
                at = (*path, key, need.index)
                yield from spec.unless_known(at, Code.UNKNOWN_PACKAGE, need.package, spec.packages)
        yield from known_branches(spec, (*path, "branches"), package.branches)
        yield from _check_repository(spec, package)
    known = all(need in spec.packages for package in spec.packages.values() for need in package.built_after())
    if known and (found := circle(spec.packages)):
        key = "needs" if spec.packages[found[0]].edges else "gathers"
        yield spec.finding(("packages", found[0], key), Code.NEEDS_CIRCLE, circle_in_words(found), key=True)


def _check_commands(spec: Spec) -> Iterator[Finding]:
    """With a backend that builds no recipes, each package declares its commands; with another one, none does."""
    of_recipes = {"recipes", *(one.name for one in keys_of(RecipeKeys))}
    for package in spec.packages.values():
        path: Path_ = ("packages", package.name)
        if spec.backend.has_recipes or package.repository:
            if package.command:
                message = f"{package.name}: `command` has no effect here; remove it, or set `backend: command`"
                yield spec.finding((*path, "command"), Code.COMMAND_UNUSED, message, key=True)
        elif package.command is None:
            message = f"{package.name} declares no `command`, which the backend {spec.backend} builds and publishes by"
            yield spec.finding(path, Code.COMMAND_MISSING, message, key=True)
        else:
            for key in sorted(of_recipes & spec.document.value["packages"][package.name].keys()):
                message = (
                    f"{package.name}: `{key}` is about recipes, and the backend {spec.backend} has none; remove it"
                )
                yield spec.finding((*path, key), Code.COMMAND_UNUSED, message, key=True)
            sources = _sources(package)
            sources += [
                f"`versions` of {branch.name}"
                for branch in spec.branches.values()
                if sources and package.name in branch.versions
            ]
            if len(sources) > 1:
                message = f"{package.name} has its version from {' and from '.join(sources)}; keep one"
                yield spec.finding((*path, "command", "version"), Code.VERSION_UNKNOWN, message, key=True)
            yield from _check_publisher(spec, (*path, "command", "publish"), package.command)
            yield from _check_secrets(spec, (*path, "command"), package.command)
            yield from placeholder_findings(spec, (*path, "command", "install"), package.command.install)
            for below, row in package.command.rows:
                yield from placeholder_findings(spec, (*path, "command", *below, "value"), row.value)


def _check_publisher(spec: Spec, path: Path_, command: Command) -> Iterator[Finding]:
    """The keys of a ready publisher must fit its kind, and nights that end must be known by their versions."""
    if publisher := command.publisher:
        name, why = publisher.problem
        if name:
            where = (*path, name) if getattr(publisher, name.replace("-", "_")) else path
            yield spec.finding(where, Code.WRONG_VALUE, f"{publisher.to}: `{name}` {why}")
        nights = publisher.retention and (publisher.retention.nights or publisher.retention.most)
        if nights and not (command.version and command.version.night):
            message = "only nights end: declare the pattern of their versions, `version: {night: …}`"
            yield spec.finding((*path, "retention"), Code.WRONG_VALUE, message, key=True)
        yield from placeholder_findings(spec, (*path, "url"), publisher.url)
        for index, tag in enumerate(publisher.image_tags):
            yield from placeholder_findings(spec, (*path, "image-tags", index), tag)


def _check_secrets(spec: Spec, path: Path_, command: Command) -> Iterator[Finding]:
    """A ready publisher gets the secrets that it takes, and no variable has the name of a secret."""
    publisher, given = command.publisher, command.secrets
    if publisher and publisher.is_bucket and len(given) not in {1, 2}:
        message = "the key of a bucket is one secret, ID:SECRET, or two: its id and its secret"
        yield spec.finding((*path, "secrets"), Code.WRONG_VALUE, message)
    if publisher and publisher.to == REGISTRY and len(given) > 2:
        message = "the login of a registry is one secret, USER:PASSWORD, or two: the user and the password"
        yield spec.finding((*path, "secrets"), Code.WRONG_VALUE, message)
    if publisher and not publisher.takes_login and command.required_secrets:
        yield spec.finding((*path, "secrets"), Code.WRONG_VALUE, f"{publisher.to} takes no secret here; leave it out")
    for name in sorted({*command.env} & {*given}):
        message = f"{name} is one of `secrets`, which no other command gets; give the variable another name"
        yield spec.finding((*path, "env", name), Code.WRONG_VALUE, message, key=True)


def _check_repository(spec: Spec, package: Package) -> Iterator[Finding]:
    """A package of another repository that compiled recipes import needs a commit and a hash for each branch."""
    if package.repository is None:
        return
    path: Path_ = ("packages", package.name, "repository")
    users = [other for other in spec.packages.values() if package.name in other.needs]
    yield from known_branches(spec, (*path, "branches"), package.repository.branches, key=True)
    for key, code, table in (
        ("rev", Code.MISSING_REV, package.repository.rev),
        ("hash", Code.MISSING_HASH, package.repository.hash),
    ):
        yield from known_branches(spec, (*path, key), table, key=True)
        for branch in spec.branches.values():
            imported = package.on(branch.name) and any(_compiles_on(user, branch) for user in users)
            if imported and branch.name not in table:
                yield spec.finding((*path, key), code, f"no {key} for branch {branch.name}")


def _check_axes(spec: Spec) -> Iterator[Finding]:
    """An error if packages have no matrix."""
    alone = [
        package.name
        for package in spec.packages.values()
        if spec.matrix is None and package.matrix is None and not package.system and not package.variants
    ]
    if alone:
        message = f"no matrix for {' and '.join(alone)}; add a general `matrix`, or a `matrix`, `system` or `variants`"
        yield spec.finding(("packages", alone[0]), Code.MISSING_MATRIX, f"{message} of its own", key=True)


def _check_patterns(spec: Spec) -> Iterator[Finding]:
    for at, matrix, _ in spec.matrices:
        for exclusion in matrix.exclude:
            path: Path_ = (*at, "exclude", exclusion.index)
            yield from known_branches(spec, (*path, "branches"), exclusion.branches)
            yield from _check_pattern(spec, (*path, "variants"), exclusion.pattern)
    for expected in spec.expected_failures:
        path = ("expected-failures", expected.index)
        yield from known_branches(spec, (*path, "branches"), expected.branches)
        yield from _check_pattern(spec, (*path, "variants"), expected.pattern)
    for package in spec.packages.values():
        for pattern, _ in package.recipes:
            yield from _check_pattern(spec, ("packages", package.name, "recipes", pattern), pattern, key=True)


def _check_pattern(spec: Spec, path: Path_, pattern: str, *, key: bool = False) -> Iterator[Finding]:
    try:
        matcher(pattern)
    except (ValueError, re.error) as error:
        yield spec.finding(path, Code.WRONG_PATTERN, str(error), key=key)


def _check_listed(spec: Spec) -> Iterator[Finding]:
    """Listed variants name known systems, branches and pools."""
    pools = {pool.name: pool for pool in spec.pools}
    for package in spec.packages.values():
        root: Path_ = ("packages", package.name)
        if package.system:
            yield from _check_system(spec, root, package.system)
        for variant in package.variants.values():
            path = (*root, "variants", variant.name)
            yield from known_branches(spec, (*path, "branches"), variant.branches)
            yield from _check_system(spec, path, variant.system)
            if variant.pool:
                yield from spec.unless_known((*path, "pool"), Code.UNKNOWN_POOL, variant.pool, pools)


def _check_system(spec: Spec, path: Path_, system: str) -> Iterator[Finding]:
    return spec.unless_known((*path, "system"), Code.UNKNOWN_SYSTEM, system, spec.hardware.systems)


def _check_pools(spec: Spec) -> Iterator[Finding]:
    for pool in spec.pools:
        path: Path_ = ("runners", pool.name)
        if pool.gpus > 1 and not pool.gpu:
            message = f"{pool.name} has {pool.gpus} GPUs but names no `gpu`"
            yield spec.finding((*path, "gpus"), Code.MISSING_GPU, message)
        if pool.system:
            yield from _check_system(spec, path, pool.system)
        elif not pool.hosted:
            why = next(filter(None, (why_unknown((*path, "runs-on"), label) for label in pool.runs_on.labels)), "")
            message = f"no label of {pool.name} says x64 or arm64; add one, or give its `system: x86_64-linux`"
            yield spec.finding(path, Code.MISSING_SYSTEM, why or message, key=True)
        for index, isa in enumerate(pool.cpu):
            yield from isa_of_system(spec, (*path, "cpu", index), isa, pool.system)
        if pool.gpu:
            unknown = list(look_up(spec, (*path, "gpu"), spec.hardware.gpu, pool.gpu))
            yield from unknown
            if pool.system and not unknown and pool.system not in spec.hardware.gpu(pool.gpu).systems:
                message = f"{pool.gpu} does not come with {pool.system} hosts"
                yield spec.finding((*path, "gpu"), Code.GPU_HOST, message)
        elif needy := next((stage for stage in pool.stages if stage.needs_gpu), None):
            message = f"{pool.name} runs {needy} but names no GPU"
            yield spec.finding((*path, "stages"), Code.MISSING_GPU, message)


def _check_cache(spec: Spec) -> Iterator[Finding]:
    """Closures are what travels through a cache. `push: own` needs one of files: Nix itself copies whole closures."""
    cache = spec.cache
    if cache and spec.backend.uses_artifacts:
        message = (
            f"`cache` carries closures, and the backend {spec.backend} makes files, which travel as artifacts; "
            "remove it (a build script may keep a cache of its own)"
        )
        yield spec.finding(("cache",), Code.CACHE_UNUSED, message, key=True)
    if cache and cache.push is CachePush.OWN and not cache.url.startswith(("file:", "s3:")):
        message = "`push: own` needs a cache at s3:// or file://; any other gets whole closures (`push: all`)"
        yield spec.finding(("cache", "push"), Code.WRONG_VALUE, message)


def _check_publish(spec: Spec) -> Iterator[Finding]:
    """Publishing cannot wait for a test that never runs; only the spec's own list is checked, not the default."""
    for index, stage in enumerate(spec.publish.after):
        if spec.tests[stage] is TestPolicy.NEVER and ("publish", "after") in spec.document.values:
            message = f"publishing waits for {stage}, which `tests` switches off"
            yield spec.finding(("publish", "after", index), Code.TEST_NEVER_RUNS, message)


def _check_prices(spec: Spec) -> Iterator[Finding]:
    """Prices name pools."""
    pools = [pool.name for pool in spec.pools]
    for name in spec.prices.machine_hour if spec.prices else ():
        yield from spec.unless_known(("prices", "machine-hour", name), Code.UNKNOWN_POOL, name, pools, key=True)


def alike_findings(spec: Spec) -> Iterator[Finding]:
    """An error for names that cannot be those of files, for a branch below another one, and for a shared tag.

    Files cannot differ only in case, or in `/` and `-`, and cannot have the name of a device.
    """
    yield from _tags_shared(spec)
    for path, names in (("packages", spec.packages), ("branches", spec.branches)):
        seen: dict[str, str] = {}
        for name in names:
            key = name.replace("/", "-").casefold()
            if key in seen:
                message = f"the {path} {name!r} and {seen[key]!r} cannot be told apart in file names"
                yield spec.finding((path, name), Code.DUPLICATE_NAME, message, key=True)
            seen[key] = name
            if re.search(f"(^|/){DEVICE}", name):
                message = f"{name!r} has the name of a device, which no file or folder has on Windows"
                yield spec.finding((path, name), Code.DUPLICATE_NAME, message, key=True)
    for name in spec.branches:
        for above in map(str, PurePosixPath(name).parents):
            if above in spec.branches:
                message = f"git cannot have the branch {name!r} beside {above!r}, which would be a file and a folder"
                yield spec.finding(("branches", name), Code.DUPLICATE_NAME, message, key=True)


def _tags_shared(spec: Spec) -> Iterator[Finding]:
    """An error for each release on GitHub that would have the tag of another one.

    A version that only a run decides on may be that of another package; on each branch of one package it differs.
    """
    seen: list[tuple[str, str, str, str]] = []
    every = [(package, branch) for package in spec.packages.values() for branch in spec.branches.values()]
    for package, branch in every:
        publisher = package.command.publisher if package.command else None
        tags = publisher.tags(package.name, branch.name) if publisher else ""
        if not tags or not branch.publish or not package.on(branch.name):
            continue
        version = branch.versions.get(package.name, "")
        for other, there, known, taken in seen:
            same = known == version if known and version else package.name != other
            if taken == tags and same:
                apart = "package" if package.name != other else "branch"
                message = (
                    f"{package.name} on {branch.name} and {other} on {there} would be one release, "
                    f"{tags.replace('{version}', version or 'VERSION')}; "
                    f'give each a tag of its own, such as `tag: "{{{apart}}}-v{{version}}"`'
                )
                yield spec.finding(("packages", package.name, "command", "publish"), Code.TAG_SHARED, message)
                break
        seen.append((package.name, branch.name, version, tags))
