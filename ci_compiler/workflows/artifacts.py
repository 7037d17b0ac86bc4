"""The names of a run's artifacts, `STAGE-VARIANT@BRANCH`, and of the files in them.

A CPU-only variant has the same name on several branches, and a pull request may build it on each of them in one run. A
variant's name has no `@`, so that no two names are the same.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable

from ci_compiler.files.folders import SBOM_FILE
from ci_compiler.stages import Stage
from ci_compiler.workflows.common import expression, selected

MANIFEST_FILE = "manifest.json"
"""The file that a build writes beside its log, and that the later stages read."""

MANIFEST = f"build-output/{MANIFEST_FILE}"
"""Its path in every job."""

BESIDE_MANIFEST = f"beside-output/{MANIFEST_FILE}"
"""The path of the manifest of the second build in a job that takes two; there is none if there is no such build."""

NEEDS_OUTPUT = "needs-output"
"""The folder into which a job downloads the artifacts of what its variant needs."""

SUBJECTS_FILE = "subjects.txt"
"""The file that a build writes beside its manifest if it is attested: the digest of everything that it made."""

SUBJECTS = f"build-output/{SUBJECTS_FILE}"
"""Its path in the job."""

SBOM = f"build-output/{SBOM_FILE}"
"""The path in a job of the software bill of materials of its variant."""

SBOM_TYPE = "https://cyclonedx.org/bom"
"""What `gh attestation verify --predicate-type` calls such an SBOM (the README of actions/attest-sbom)."""

RESULT = "result.json"
"""The file that a test writes beside its log, for the table at the end of a run."""

SUITE_RESULT = "suite.json"
"""The file that a test suite writes beside its log, for the same table."""

BENCHMARK = "benchmark.json"
"""The file that a benchmark writes beside `RESULT`: what it measured, for `ci-compile status --benchmarks` as well."""

BENCHMARKS = "benchmarks"
"""The artifact with these files of all variants of a run, in the folders of their own artifacts."""

EXPECTED = "expected to fail"
"""How `SUITE_RESULT` counts a test whose failure the spec expects."""

COMPLETE_FILE = "complete.json"
"""The file in which a run that succeeded notes the variants of which later runs need nothing."""

PUBLISHED = "published.json"
"""The file that publishing writes about its result, for the same table. It is in a folder with the variant's name."""

PUBLISHED_ALREADY = "published already"
"""How `PUBLISHED` begins to say that an earlier run published the build."""

PROTECTED, REQUEST = "protected", "request"
"""The trust in what a run made: a run of a branch of the spec runs code that was merged there, every other is a request
(`github.earlier`)."""

_REFUSED = re.compile(r'[/"<>|]')
"""What the name of a branch may have and the name of an artifact may not (actions/toolkit, packages/artifact,
path-and-artifact-name-validation.ts)."""


def artifact_name(stage: Stage | str, variant: str, branch: str) -> str:
    """The name of the artifact of `stage` of `variant` on `branch`."""
    # Assumes `artifact-names`.
    return f"{stage}-{variant}@{_escaped(branch)}"


def complete_artifact(subject: str, tree: str, versions: str) -> str:
    """The artifact with `COMPLETE_FILE` of a run of `subject` at a git `tree`, which decided on these `versions`."""
    digest = hashlib.sha256(json.dumps([subject, tree, versions]).encode()).hexdigest()
    return f"complete-{digest}"


def artifact_expression(stage: Stage | str, variant: str, branches: Iterable[str]) -> str:
    """`artifact_name` in a called workflow, that runs for one of `branches`."""
    named = {branch: _escaped(branch) for branch in branches}
    other = {branch: name for branch, name in named.items() if branch != name}
    quoted = json.dumps(named).replace("'", r"\u0027")
    branch = selected("branch")
    words = f"fromJSON('{quoted}')[{branch}]" if other else branch
    return f"{stage}-{variant}@{expression(words)}"


def _escaped(branch: str) -> str:
    """`branch` without the characters that no artifact may have in its name; no two branches become the same.

    No branch has a `~` of its own: git refuses it.
    """
    return _REFUSED.sub(lambda found: f"~{ord(found[0]):02x}", branch)
