"""The places that files are published to without a command, as the spec declares them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ci_compiler.backends.command_files import filled
from ci_compiler.codes import Code
from ci_compiler.errors import wrong
from ci_compiler.outside import expected
from ci_compiler.plan.lookup import BuiltVariant, built_variants
from ci_compiler.plan.matrix import values_in
from ci_compiler.plan.pipeline import plan
from ci_compiler.publishing.plan import Nights, release_of
from ci_compiler.publishing.stores import FolderStore, Store
from ci_compiler.publishing.target import Target, place_failures
from ci_compiler.secret import Secret
from ci_compiler.spec.command import Command
from ci_compiler.spec.model import Spec
from ci_compiler.spec.publishers import GITHUB_RELEASE, REGISTRY, RELEASE_TOKEN, S3, TRUSTED, Publisher
from ci_compiler.stages import PUBLISH


def target_of(
    command: Command,
    values: Mapping[str, str],
    secrets: Mapping[str, Secret],
    root: Path,
    every: Callable[[str], Mapping[str, str]] | None = None,
) -> Target:
    """The place that a package with a ready publisher declares for its variant with `values`.

    `root` is the checkout. `every` returns the values of each variant by name, for a whole release. Raises InputError
    without a credential.
    """
    publisher = expected(Publisher, command.publish)
    url = filled(publisher.url, values)
    if publisher.to == GITHUB_RELEASE:
        return _release(publisher.tags(values["package"], values["branch"]), secrets, root)
    if publisher.to == TRUSTED:
        from ci_compiler.publishing.trusted import TrustedIndex

        return TrustedIndex(url, publisher.index, os.environ)
    if publisher.to == REGISTRY:
        from ci_compiler.publishing.registry import Registry

        def tags(name: str) -> list[str]:
            return [filled(tag, every(name) if every else values) for tag in publisher.image_tags]

        login = Secret(_joined(command.secrets, secrets))
        return Registry(url, values["name"], tags, login, " and ".join(command.secrets))
    from ci_compiler.publishing.wheel_index import WheelIndex

    store = _bucket(publisher, url, command.secrets, secrets) if publisher.is_bucket else FolderStore(Path(url))
    return WheelIndex(store, url, values["package"], publisher.retention.upload_days if publisher.retention else 0)


def _release(tags: str, secrets: Mapping[str, Secret], root: Path) -> Target:
    from ci_compiler.github.access import TOKENS, access
    from ci_compiler.github.client import Client, Patience
    from ci_compiler.github.release import GitHubRelease

    token = {TOKENS[0]: secrets[RELEASE_TOKEN].reveal()} if RELEASE_TOKEN in secrets else {}
    client = Client(access(os.environ | token, root), say=print, patience=Patience(limit=3600))
    return GitHubRelease(client, tags)


def _joined(names: Sequence[str], secrets: Mapping[str, Secret]) -> str:
    """A login of two parts, with a colon, whether it is one secret or two."""
    return ":".join(secrets[name].reveal() for name in names if name in secrets)


def _bucket(publisher: Publisher, url: str, names: Sequence[str], secrets: Mapping[str, Secret]) -> Store:
    from ci_compiler.publishing.s3 import Bucket, Keys

    bucket, _, prefix = url.removeprefix(S3).partition("/")
    endpoint = publisher.endpoint or f"https://s3.{publisher.region}.amazonaws.com"
    key, _, secret = _joined(names, secrets).partition(":")
    if not key or not secret:
        parts = "ACCESS-KEY-ID:SECRET-ACCESS-KEY" if len(names) == 1 else "its id, and its secret"
        raise wrong(" and ".join(names), Code.NO_TOKEN, f"must be set to the key of the bucket: {parts}")
    keys = Keys(id=key, secret=Secret(secret), region=publisher.region)
    return Bucket(f"{endpoint}/{bucket}", prefix.strip("/"), keys)


def members_of(built: BuiltVariant) -> list[str]:
    """The variants of a whole release: all of the package of `built` that its branch publishes."""
    package, branch = built.variant.package, built.cell.branch
    return [
        other.variant.name
        for other in built_variants(plan(built.spec))
        if other.variant.package == package and other.cell.branch == branch and PUBLISH in other.route.pools
    ]


def nights_of(commands: Command) -> Nights | None:
    """Which nights and uploads of a package are kept where it is published; None for all."""
    retention = commands.publisher.retention if commands.publisher else None
    pattern = commands.version.night if commands.version else ""
    if not retention:
        return None
    return Nights(pattern=pattern, days=retention.days, most=retention.most, uploads=retention.upload_days)


def withdraw(
    spec: Spec, root: Path, secrets: Mapping[str, Secret], package: str, version: str, because: str
) -> list[str]:
    """Withdraws a version of `package` from every place that ready publishers published it to; what was, in lines.

    A `version` without a local part is that of all variants. Raises InputError if no place has it.
    """
    command = spec.packages[package].command
    if not command or not command.publisher:
        message = f"{package} is published by {spec.backend.summary}: {spec.backend.withdrawal}"
        raise wrong("PACKAGE", Code.WRONG_VALUE, message)
    built = [one for one in built_variants(plan(spec)) if one.variant.package == package]
    values = [values_in(spec, other.cell, package, other.variant.name) for other in built]
    publisher = command.publisher
    texts = (publisher.url, *publisher.image_tags)
    places = {(publisher.tags(package, one["branch"]), *(filled(text, one) for text in texts)): one for one in values}
    lines: list[str] = []
    for one in places.values():
        target = target_of(command, one, secrets, root)
        with place_failures(package):
            gone = [held for held in target.versions() if version in {held.version, release_of(held.version)}]
            target.withdraw(gone, because)
        lines += [f"{held.variant or package} {held.version}: withdrawn" for held in sorted(gone)]
    if not lines:
        message = f"{version} of {package} is nowhere that it is published to"
        raise wrong("VERSION", Code.VERSION_UNKNOWN, message)
    return lines
