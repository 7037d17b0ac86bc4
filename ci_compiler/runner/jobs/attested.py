"""What a build attests, and what GitHub says about it.

`actions/attest` signs a list of subjects: names with SHA-256 digests. The subjects of a build are its manifest and its
outputs. The digest of a store path is that of its archive (NAR): Nix prints it as the path's hash, and whoever has the
path can write the same archive (`nix store dump-path`) and hash it. The subject of an output is called PATH@COMMIT,
because the run can be of another commit than the one that it builds.

`gh attestation verify` checks the signature and the workflow that signed (https://cli.github.com/manual/gh_attestation_verify).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ci_compiler.backends.nar import hex_digest
from ci_compiler.codes import Code
from ci_compiler.errors import failure
from ci_compiler.outside import json_of
from ci_compiler.process import ask, find_program
from ci_compiler.runner.jobs.manifest import Manifest
from ci_compiler.workflows.artifacts import MANIFEST_FILE

_SECONDS = 600.0
_MOST = "1000"
"""How many attestations of one digest gh reads; its default is 30."""

_SUBJECT = re.compile(r"(?P<path>[^@]+)@(?P<commit>[0-9a-f]{40})")


def subjects(manifest: Manifest, digest: str) -> str:
    """The subjects of a build, as a checksums file. `digest` is that of the manifest's file."""
    lines = [f"{hex_digest(digest)}  {MANIFEST_FILE}"]
    lines += [f"{hex_digest(manifest.closure[path])}  {path}@{manifest.commit}" for path in manifest.outputs]
    return "".join(f"{line}\n" for line in lines)


class Attestation(NamedTuple):
    """What one attestation states of a path: the ref of the run that signed it, and the commit that was built."""

    ref: str
    commit: str


def attestations(path: str, archive: Path, digest: str, repository: str, workflow: str) -> tuple[Attestation, ...]:
    """The attestations that the `workflow` of `repository` made of `path`, whose content is in the file `archive`.

    `digest` is that of the file, in base 16. Raises InputError if gh is missing, and StageError if it finds none.
    """
    gh = find_program("gh", install="install the GitHub CLI (https://cli.github.com), and log in with `gh auth login`")
    signer = f"{repository}/{workflow}"
    where = ("--repo", repository, "--signer-workflow", signer, "--limit", _MOST, "--format", "json")
    ended = ask([gh, "attestation", "verify", str(archive), *where], seconds=_SECONDS)
    if ended.status != 0:
        message = f"gh verifies no attestation of its content by {signer}: {ended.said}"
        raise failure(path, Code.ATTESTATION_MISSING, message)
    try:
        found = tuple(_stated(json_of(ended.out), path, digest))
    except (ValueError, KeyError, TypeError, AttributeError):
        found = ()
    if not found:
        message = f"an attestation by {signer} has its digest, but not under its name: it is another path"
        raise failure(path, Code.ATTESTATION_DIFFERS, message)
    return found


def _stated(results: list[Any], path: str, digest: str) -> Iterator[Attestation]:
    for result in results:
        verified = result["verificationResult"]
        ref = verified["signature"]["certificate"]["sourceRepositoryRef"]
        for subject in verified["statement"]["subject"]:
            name = _SUBJECT.fullmatch(subject["name"])
            if name and name["path"] == path and subject["digest"].get("sha256") == digest:
                yield Attestation(ref, name["commit"])
