"""Variants that an earlier run completed, and for which a run asks no machine."""

from __future__ import annotations

from ci_compiler.plan.expected import expected_failures
from ci_compiler.plan.lookup import BuiltVariant
from ci_compiler.plan.suites import suites_of
from ci_compiler.spec.model import Spec


def may_be_complete(spec: Spec, package: str) -> bool:
    """Whether the spec lets runs leave variants of `package` out that an earlier run completed.

    With a cache of which it names the `builder-keys`, builds are taken from other machines, and what is complete needs
    none of them. What a build script makes is built by every run.
    """
    return not spec.packages[package].command and bool(spec.cache and spec.cache.builder_keys)


def stays_complete(built: BuiltVariant) -> bool:
    """Whether a variant that passed is complete until something changes: no failure is excused up to a date."""
    spec, name = built.spec, built.variant.name
    if not may_be_complete(spec, built.variant.package) or expected_failures(spec, name, built.cell.branch):
        return False
    suites = suites_of(spec, built.cell, built.variant)
    return not any(suite.expected_failures for suite in suites)
