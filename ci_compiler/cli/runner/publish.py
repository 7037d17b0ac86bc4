"""`ci-runner publish NAME`: publishes a build, once."""

from __future__ import annotations

import argparse

from ci_compiler.cli.stage import reported
from ci_compiler.cli.where import root_of, spec_of
from ci_compiler.runner.jobs.manifest import expect, read_manifest
from ci_compiler.runner.jobs.publish import publish
from ci_compiler.runner.jobs.setting import Secrets


@reported
def run(arguments: argparse.Namespace, secrets: Secrets) -> int:
    """Publishes, unless it is already published; returns 1 if it cannot."""
    spec, root, path = spec_of(arguments), root_of(arguments), arguments.manifest
    manifest = read_manifest(path, arguments.digest)
    asked = {"name": arguments.name, "branch": arguments.branch, "commit": arguments.commit}
    expect(manifest, path, **asked, backend=spec.backend)
    outcome = publish(spec, root, manifest, arguments.out, secrets, again=arguments.again, folder=path.parent)
    print(f"{arguments.name}: {outcome.result}")
    return 0
