"""`ci-runner publish NAME`: publishes a build, once."""

from __future__ import annotations

import argparse

from ci_compiler.cli import options
from ci_compiler.cli.stage import reported
from ci_compiler.cli.where import root_of, spec_of
from ci_compiler.codes import Code
from ci_compiler.errors import failure
from ci_compiler.runner.jobs.manifest import expect, read_manifest
from ci_compiler.runner.jobs.publish import publish
from ci_compiler.runner.jobs.publish_run import candidates, results_by_hand
from ci_compiler.runner.jobs.setting import Secrets, StageJob
from ci_compiler.runner.targets import find


def declare(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    options.shared(parser, "variant")
    parser.add_argument("--branch", metavar="B", required=True, help="the branch that it was built for")
    parser.add_argument("--commit", metavar="SHA", required=True, help="the commit that it was built from")
    parser.add_argument(
        "--manifest", metavar="FILE", type=options.path, required=True, help="the manifest of the build"
    )
    options.shared(parser, "digest")
    parser.add_argument(
        "--results",
        metavar="DIR",
        type=options.path,
        default=".",
        help="folder with the results of its tests, or with the folders of "
        "each, which are believed (default: %(default)s)",
    )
    parser.add_argument(
        "--out",
        metavar="DIR",
        type=options.path,
        default="publish-output",
        help="folder for the outcome (default: %(default)s)",
    )
    parser.add_argument("--again", action="store_true", help="publish even if it is already published")
    options.shared(parser, "root", "spec")


@reported
def run(arguments: argparse.Namespace, secrets: Secrets) -> int:
    """Publishes, unless it is already published; returns 1 if it cannot."""
    spec, root, path = spec_of(arguments), root_of(arguments), arguments.manifest
    manifest = read_manifest(path, arguments.digest)
    asked = {"name": arguments.name, "branch": arguments.branch, "commit": arguments.commit}
    expect(manifest, path, **asked, backend=spec.backend)
    built = find(spec, arguments.name, arguments.branch)
    results = results_by_hand(built, manifest, path.parent, arguments.results)
    (one,) = candidates(built.spec, [(built.cell, built.route)], [arguments.name], results)
    if one.because:
        raise failure(arguments.name, Code.NO_TEST_RECORD, f"{one.because}, by the results in {arguments.results}")
    outcome = publish(StageJob(spec, root, secrets), one, arguments.out, again=arguments.again)
    print(f"{arguments.name}: {outcome.result}")
    return 0
