"""Deciding on the versions of packages: what a command prints, or the nearest tag, and the date of a night."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from ci_compiler.backends.command_programs import shell
from ci_compiler.codes import Code
from ci_compiler.errors import InputError, wrong
from ci_compiler.git import Git
from ci_compiler.process import ask
from ci_compiler.runner.jobs.isolation import without_tokens
from ci_compiler.spec.command import VersionRule
from ci_compiler.spec.model import Spec
from ci_compiler.spec.versions import checked

_SECONDS = 600.0


def decided_versions(spec: Spec, root: Path, branches: Iterable[str], night: str = "") -> dict[str, dict[str, str]]:
    """The versions that the checkout at `root` gives the packages on `branches`; `night` is the date of a night.

    Only those of packages whose version the spec alone does not give. Raises InputError.
    """
    if night and not re.fullmatch("20[0-9]{6}", night):
        raise wrong("--night", Code.WRONG_OPTION, f"{night!r} is not a date such as 20261123")
    found: dict[str, dict[str, str]] = {branch: {} for branch in branches}
    bases: dict[str, str] = {}
    for branch, versions in found.items():
        for name, package in spec.packages.items():
            rule = package.command.version if package.command else None
            if rule is None or not package.on(branch) or not (rule.command or rule.tag or (night and rule.night)):
                continue
            if name not in bases:
                bases[name] = _base(spec, root, name, rule)
            base = bases[name] or spec.branches[branch].versions.get(name, "")
            version = rule.night.format(version=base, date=night) if night and rule.night else base
            try:
                versions.update(checked({name: version}))
            except ValueError as error:
                raise wrong(f"packages.{name}.command.version", Code.VERSION_UNKNOWN, str(error)) from None
    return found


def _base(spec: Spec, root: Path, name: str, rule: VersionRule) -> str:
    """What the command of a package prints, or its tag says; '' if it has neither."""
    path = f"packages.{name}.command.version"
    if rule.command:
        env = without_tokens(os.environ, spec.publishing_secrets)
        ended = ask(shell(rule.command), seconds=_SECONDS, env=env, folder=root)
        if ended.status != 0:
            message = f"`{rule.command}` ended with status {ended.status}: {ended.said or 'it printed nothing'}"
            raise wrong(path, Code.VERSION_UNKNOWN, message)
        return ended.out.strip()
    if not rule.tag:
        return ""
    before, _, after = rule.tag.partition("{version}")
    git = Git(root)
    try:
        tag = git.nearest_tag(f"{before}*{after}")
    except InputError:
        message = f"no tag such as {rule.tag} is an ancestor of what is checked out{git.shallow_hint()}"
        raise wrong(path, Code.VERSION_UNKNOWN, message) from None
    return tag.removeprefix(before).removesuffix(after)
