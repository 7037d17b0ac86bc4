#!/usr/bin/env python3
"""Builds one of the images beside this file, with the pins in `runner/deployment/release_pins.json`.

    runner-images/build.py builder --owner my-org --arg FLOX_SHA256_AMD64=...
    runner-images/build.py gpu-tester --owner my-org
    runner-images/build.py builder --engine docker --print

Needs only Python 3.11 and an engine; no package must be installed.
"""

import argparse
import json
import os
import re
import shlex
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
if (HERE.parent / "ci_compiler").is_dir():
    sys.path.insert(0, str(HERE.parent))

import ci_compiler  # noqa: E402  (from this checkout, or the toolkit that wrote this folder)
from ci_compiler import __version__  # noqa: E402
from ci_compiler.backends import backends  # noqa: E402
from ci_compiler.runner.deployment.release_pins import ARCHITECTURES, build_arguments, pins  # noqa: E402

NAMES = [backend.name for backend in backends()]
IMAGES = sorted(file.parent.name for file in HERE.glob("*/Containerfile"))
BUILD = {"buildah": ("buildah", "bud"), "docker": ("docker", "build"), "podman": ("podman", "build")}


def command(options: argparse.Namespace, engine_options: list[str]) -> list[str]:
    """The engine's command that builds the image, with the build arguments that its Containerfile declares."""
    file = HERE / options.image / "Containerfile"
    known = build_arguments(options.backend)
    known["BUILDER_IMAGE"] = tag("builder", options.owner)
    if wheels := sorted(HERE.glob(f"archives/ci_compiler-{__version__}-*.whl")):
        known["TOOLKIT_WHEEL"] = f"/archives/{wheels[-1].name}"
    asked = dict.fromkeys(re.findall(r"^ARG (\w+)$", file.read_text("utf-8"), re.MULTILINE))
    for pair in options.arg:
        name, _, value = pair.partition("=")
        if name not in asked:
            raise SystemExit(f"build.py: {file.parent.name} has no argument {name}; it has {', '.join(asked)}")
        known[name] = value
    words = [*BUILD[options.engine], "--file", str(file), "--tag", tag(options.image, options.owner)]
    if options.arch:
        words += ["--platform", f"linux/{options.arch}"]
    for name in asked:
        if name in known:
            words += ["--build-arg", f"{name}={known[name]}"]
    return [*words, *engine_options, str(HERE)]


def tag(image: str, owner: str) -> str:
    """The default name of the image in a spec of `owner`; without an owner, a local name."""
    if not owner:
        return f"localhost/ci-{image}:{__version__}"
    named = json.loads((Path(ci_compiler.__file__).parent / "spec/images.json").read_bytes())["images"]
    named |= {"compiler": "ghcr.io/{owner}/ci-compiler:{version}", "controller": pins().controller}
    return named[image].format(owner=owner.lower(), version=__version__)


def main() -> None:
    """Runs the engine's command in place of this process, or prints it."""
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], epilog="Options after -- are passed to the engine."
    )
    parser.add_argument("image", choices=IMAGES)
    parser.add_argument("--engine", choices=sorted(BUILD), default="podman")
    parser.add_argument(
        "--arch", choices=sorted(ARCHITECTURES.values()), help="the architecture (default: this machine's)"
    )
    parser.add_argument(
        "--backend", choices=NAMES, default=NAMES[0], help=f"the backend of the spec (default: {NAMES[0]})"
    )
    parser.add_argument("--owner", default="", help="name the image as in a spec of this owner")
    parser.add_argument(
        "--arg", action="append", default=[], metavar="NAME=VALUE", help="a build argument that replaces a pin"
    )
    parser.add_argument("--name", action="store_true", help="print the name of the image and run nothing")
    parser.add_argument("--print", action="store_true", help="print the command and run nothing")
    words, separator, engine_options = sys.argv[1:], "--", []
    if separator in words:
        at = words.index(separator)
        words, engine_options = words[:at], words[at + 1 :]
    options = parser.parse_args(words)
    if options.name:
        print(tag(options.image, options.owner))
        return
    words = command(options, engine_options)
    if options.print:
        print(shlex.join(words))
        return
    os.execvp(words[0], words)  # noqa: S606  (the engine takes this process' place)


if __name__ == "__main__":
    main()
