"""`ci-compile`: its subcommands, one module each."""

from __future__ import annotations

from ci_compiler.cli import quiet_interrupts

with quiet_interrupts():
    from ci_compiler.cli.app import run
    from ci_compiler.cli.program import Program

    PROGRAM = Program(
        name="ci-compile",
        purpose="Compiles one spec into sharded GitHub Actions workflows, Nix recipes and documents.",
        package=__name__,
        default="build",
        commands={
            "canary": "write the workflows that try what the compiled files assume of GitHub, Nix and Flox",
            "plan": "print the plan: the shards with their jobs, or everything as JSON for other tools",
            "variants": "list the variants of the matrix",
            "explain": "explain a variant (why it is built or left out, its shard, job and pools) or a finding's code",
            "select": "choose the variant for this machine or another, and say how to install it",
            "site": "write the finder page, which chooses in the browser, and "
            "the page of results over time: static files",
            "overlay": "write the builds for users of plain Nix: an overlay, a flake and a NixOS module",
            "diff": "report what a change of the spec means and costs, as Markdown or JSON",
            "forecast": "forecast what building everything costs and how long it takes, pool by pool",
            "recipes": "write or check a branch's recipes",
            "hash": "fetch each nixpkgs commit of the spec, and write the hash of its archive into the spec",
            "update": "find newer releases, and edit the spec: versions, nixpkgs commits, sources with their hashes",
            "audit": "report what is wrong with existing recipes",
            "evaluate": "list the derivation and the outputs that each recipe evaluates to",
            "adopt": "make a spec from existing recipes",
            "affected": "list the variants that a change rebuilds",
            "sync": "bring every branch's recipes, workflows and documents up to date",
            "choose": "in a select job: determine what the event builds",
            "comment": "in a reporting job: keep the comment on a pull request up to date",
            "summary": "in a verdict job: write the table that ends a run",
            "verdict": "in a verdict job: accept the failures that the spec expects",
            "dispatch": "start builds of variants on GitHub, and wait for them",
            "waves": "in a job of waves.yml: start wave after wave, and hand over in time",
            "start": "start the runs of a profile on GitHub: a night, a release, "
            "or what was pushed since the last complete run",
            "status": "show the last result of every variant as a grid",
            "settings": "show the repository's settings that the compiled files rely on",
            "pause": "stop new jobs on self-hosted machines at once, by the repository variable CI_PAUSED",
            "resume": "lift a pause, or all of them",
            "recall": "mark published variants as wrong in the spec, and list "
            "what to use instead and what was built with them",
            "upgrade": "show what this version compiles differently, and compile with --write",
            "init": "write a first spec",
            "schema": "print the JSON Schema of the spec",
        },
    )


def main() -> int:
    """The entry point of `ci-compile`."""
    return run(PROGRAM)
