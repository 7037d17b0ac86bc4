"""`ci-compile init`: writes a first spec, and the JSON Schema beside it for completion in editors."""

from __future__ import annotations

import argparse

from ci_compiler.cli.where import SCHEMA_BESIDE, SPEC, root_of
from ci_compiler.codes import Code
from ci_compiler.errors import wrong
from ci_compiler.files.atomic import cannot_write, write_file
from ci_compiler.files.drift import obstacle
from ci_compiler.spec.build import FIRST, parse_spec
from ci_compiler.spec.schema import schema_text


def run(arguments: argparse.Namespace) -> int:
    """Writes the spec and its schema. Raises InputError if a spec exists already or the owner is not a valid name."""
    root = root_of(arguments)
    if (root / SPEC).exists() or (root / SPEC).is_symlink():
        raise wrong(SPEC.as_posix(), Code.IN_THE_WAY, "exists already; edit it, or move it away first")
    if problem := obstacle(root, SCHEMA_BESIDE.as_posix()):
        raise wrong(SCHEMA_BESIDE.as_posix(), Code.IN_THE_WAY, problem)
    text = FIRST.read_text("utf-8")
    if arguments.owner is not None:
        text = text.replace("owner: my-org", f"owner: {arguments.owner}")
        parse_spec(text.encode(), shown="--owner")
    try:
        (root / SPEC).parent.mkdir(parents=True, exist_ok=True)
        write_file(root / SCHEMA_BESIDE, schema_text())
        write_file(root / SPEC, text)
    except OSError as error:
        raise cannot_write(error.filename or root, error) from error
    print(f"wrote {SPEC} and {SCHEMA_BESIDE}; edit the former, then run `ci-compile`")
    return 0
