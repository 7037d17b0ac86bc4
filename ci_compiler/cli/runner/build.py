"""`ci-runner build NAME`: build a variant, and report the result."""

from __future__ import annotations

import argparse
import json
import os

from ci_compiler.cli import options
from ci_compiler.cli.console import append_to
from ci_compiler.cli.stage import offered_to, reported, reproducible
from ci_compiler.cli.where import branch_of, root_of, spec_of
from ci_compiler.runner.jobs.build import LOG, Given, build, staged_builds
from ci_compiler.runner.jobs.joined import build_joined
from ci_compiler.runner.jobs.setting import Secrets, StageJob
from ci_compiler.runner.targets import find
from ci_compiler.runner.versions import decided_versions
from ci_compiler.spec.versions import VARIABLE, decides_versions, with_versions


def declare(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    options.shared(parser, "variant")
    parser.add_argument(
        "--out",
        metavar="DIR",
        type=options.path,
        default="build-output",
        help="folder for manifest and log (default: %(default)s)",
    )
    parser.add_argument(
        "--staged", metavar="PATHS", default="", help="the staged builds of what it needs, as their manifests name them"
    )
    options.shared(parser, "needs", "chosen", "reported", "legs", "branch", "root", "spec")


@reproducible([LOG])
@reported
def run(arguments: argparse.Namespace, secrets: Secrets) -> int:
    """Builds and prints the store path after the log; if it fails, prints the end of the log and returns 1."""
    spec, root = spec_of(arguments), root_of(arguments)
    branch = branch_of(arguments, spec, root)
    if VARIABLE not in os.environ and decides_versions(spec):
        spec = with_versions(spec, decided_versions(spec, root, [branch]))
    built = find(spec, arguments.name, branch)
    given = Given(staged_builds(arguments.staged), offered_to(built, arguments))
    job = StageJob(spec, root, secrets)
    if built.cell.joined:
        digests = build_joined(job, built, arguments.out, given)
        append_to("GITHUB_OUTPUT", f"manifests={json.dumps(digests)}\n")
        print("\n".join(digests))
        return 0
    manifest, digest = build(job, arguments.name, branch, arguments.out, given)
    was_built = "yes" if manifest.built else "no"
    append_to("GITHUB_OUTPUT", f"manifest={digest}\nstaged={manifest.staged}\nbuilt={was_built}\n")
    print(manifest.store_path)
    return 0
