"""`ci-runner publish NAME`: publishes a build, once."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ci_compiler.cli.where import add_output, add_spec, root_of, spec_of

if TYPE_CHECKING:
    from ci_compiler.runner.jobs.setting import Secrets


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the variant, the build, and whether to publish it again."""
    parser.add_argument("name", metavar="NAME", help="the variant")
    parser.add_argument("--branch", metavar="B", required=True, help="the branch that it was built for")
    parser.add_argument("--commit", metavar="SHA", required=True, help="the commit that it was built from")
    parser.add_argument("--manifest", type=Path, metavar="FILE", required=True, help="the manifest of the build")
    add_output(parser, "publish-output", "the outcome")
    parser.add_argument("--again", action="store_true", help="publish even if it is already published")
    add_spec(parser)


def run(arguments: argparse.Namespace) -> int:
    """Publishes, unless it is already published; returns 1 if it cannot."""
    from ci_compiler.cli.runner.stage import reported
    from ci_compiler.runner.jobs.manifest import expect, read_manifest
    from ci_compiler.runner.jobs.publish import publish

    def work(secrets: Secrets) -> int:
        spec, root, path = spec_of(arguments), root_of(arguments), arguments.manifest
        manifest = read_manifest(path)
        asked = {"name": arguments.name, "branch": arguments.branch, "commit": arguments.commit}
        expect(manifest, path, **asked, backend=spec.backend)
        outcome = publish(spec, root, manifest, arguments.out, secrets, again=arguments.again, folder=path.parent)
        print(f"{arguments.name}: {outcome.result}")
        return 0

    return reported(work)
