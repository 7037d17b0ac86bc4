"""`ci-runner images DIR`: writes the files that the runner images are built from."""

from __future__ import annotations

import argparse

from ci_compiler.cli import options
from ci_compiler.runner.deployment.image_files import write_image_files


def declare(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("folder", metavar="DIR", type=options.path, help="the new folder")


def run(arguments: argparse.Namespace) -> int:
    """Prints the command that builds an image."""
    folder = arguments.folder
    write_image_files(folder)
    print(f"{folder.as_posix()}/build.py builder builds the first image; see README.md there")
    return 0
