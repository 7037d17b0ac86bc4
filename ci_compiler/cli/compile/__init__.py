"""`ci-compile`: its subcommands, one module each."""

from __future__ import annotations

from ci_compiler.cli.app import Program, run

PROGRAM = Program(
    name="ci-compile",
    purpose="Compiles one spec into sharded GitHub Actions workflows, Nix recipes and documents.",
    package="ci_compiler.cli.compile",
    default="build",
    commands={
        "plan": "print the plan: the shards with their jobs, or everything as JSON for other tools",
        "variants": "list the variants of the matrix",
        "explain": "explain a variant (why it is built or left out, its shard, job and pools) or a finding's code",
        "select": "choose the variant for this machine or another, and say how to install it",
        "site": "write the finder page: one static file that chooses in the browser",
        "diff": "report what a change of the spec means and costs, as Markdown",
        "forecast": "forecast what building everything costs and how long it takes, pool by pool",
        "recipes": "write or check a branch's recipes",
        "audit": "report what is wrong with existing recipes",
        "adopt": "make a spec from existing recipes",
        "affected": "list the variants that a change rebuilds",
        "sync": "bring every branch's recipes, workflows and documents up to date",
        "choose": "in a select job: determine what the event builds",
        "summary": "in a verdict job: write the table that ends a run",
        "dispatch": "start builds of variants on GitHub, and wait for them",
        "status": "show the last result of every variant as a grid",
        "init": "write a first spec",
        "schema": "print the JSON Schema of the spec",
    },
)


def main() -> int:
    """The entry point of `ci-compile`."""
    return run(PROGRAM)
