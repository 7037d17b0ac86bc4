"""`ci-compile`: its subcommands, a module each."""

from __future__ import annotations

from ci_compiler.cli.app import Program, run

PROGRAM = Program(
    name="ci-compile",
    purpose="Compiles one spec into sharded GitHub Actions workflows, Nix recipes and documents.",
    package="ci_compiler.cli.compile",
    default="build",
    commands={
        "variants": "list the variants of the matrix",
        "explain": "explain a variant (why it exists or cannot, its shard, job and pools) or a finding's code",
        "select": "choose the variant for a machine, this one or another, and tell how to install it",
        "site": "write the finder page: one static file that chooses in the browser",
        "diff": "tell what a change of the spec means and costs, as Markdown",
        "forecast": "tell what building everything costs and how long it takes, pool by pool",
        "recipes": "write or check a branch's recipes",
        "audit": "tell what is wrong with recipes that exist",
        "adopt": "make a spec of recipes that exist",
        "affected": "list the variants that a change rebuilds",
        "sync": "bring every branch's recipes, workflows and documents up to date",
        "choose": "in a select job: tell what the event at hand builds",
        "summary": "in a verdict job: write the table that ends a run",
        "dispatch": "start builds of variants on GitHub, and wait for them",
        "status": "show the last result of every variant as a grid",
        "init": "write a first spec",
        "schema": "print the JSON Schema of a spec",
    },
)


def main() -> int:
    """The entry point of `ci-compile`."""
    return run(PROGRAM)
