"""Pauses for the commands: the options of `pause` and `resume`, and the lines about what is paused."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from ci_compiler.cli.where import filter_of
from ci_compiler.plan.pause import PAUSE_VARIABLE, pause_word, words_in_force
from ci_compiler.spec.model import Spec


def word_of(arguments: argparse.Namespace, spec: Spec) -> str:
    """The word that `--branch` and `--pool` ask for. Raises InputError for an unknown name."""
    pools = [pool.name for pool in spec.pools]
    return pause_word(filter_of(arguments, "branch", spec.branches), filter_of(arguments, "pool", pools))


def pause_lines(spec: Spec, value: str) -> Iterator[str]:
    """One line for each word in `value`, the value of the variable."""
    for word, known in words_in_force(spec, value):
        if known:
            yield f"paused: {word}; `ci-compile resume{_options(word)}` lifts it"
        else:
            yield f"warning: {PAUSE_VARIABLE} contains {word!r}, but the spec has no such branch or pool"


def _options(word: str) -> str:
    """The options of `resume` that lift `word` alone."""
    kind, _, name = word.partition(":")
    if not name:
        return ""
    pool, _, branch = name.partition("@") if kind == "pool" else ("", "", name)
    return (f" --pool {pool}" if pool else "") + (f" --branch {branch}" if branch else "")
