"""`ci-runner publish NAME`: publishes a build, once."""

from __future__ import annotations

import argparse

from ci_compiler.cli.stage import reported
from ci_compiler.cli.where import root_of, spec_of
from ci_compiler.codes import Code
from ci_compiler.errors import failure
from ci_compiler.runner.jobs.manifest import expect, read_manifest
from ci_compiler.runner.jobs.publish import publish
from ci_compiler.runner.jobs.publish_run import candidates, results_by_hand
from ci_compiler.runner.jobs.setting import Secrets, StageJob
from ci_compiler.runner.targets import find


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
