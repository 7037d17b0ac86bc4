"""`ci-runner join-images ARCHIVE… --out FILE`: one image of the images of several platforms."""

from __future__ import annotations

import argparse

from ci_compiler.cli import options
from ci_compiler.codes import Code
from ci_compiler.errors import wrong
from ci_compiler.publishing.images import SUFFIX, join


def declare(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument(
        "archives",
        metavar="FILE",
        nargs="+",
        type=options.path,
        help="the archives (`*.oci.tar`), one for each platform",
    )
    parser.add_argument("--out", metavar="FILE", type=options.path, required=True, help="the new archive")


def run(arguments: argparse.Namespace) -> int:
    """Prints the platforms and the digest. Raises InputError for images that cannot be joined."""
    to = arguments.out
    if not to.name.endswith(SUFFIX) or to in arguments.archives or (to.exists() and not to.is_file()):
        raise wrong(to, Code.IMAGE_DIFFERS, f"must be a new file with a name that ends with {SUFFIX}")
    try:
        image = join(arguments.archives, to)
    except (OSError, ValueError) as error:
        raise wrong(to, Code.IMAGE_DIFFERS, f"cannot be joined: {error}") from None
    print(f"{' and '.join(sorted(image.platforms))}: {image.root.digest}")
    return 0
