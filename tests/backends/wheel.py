"""A wheel project whose build script needs no network: a module, an in-tree build backend, an index in a folder."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pip

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
TAG = f"python{PYTHON.replace('.', '')}"
NAME = f"fastpath-{TAG}-cpu-avx2"
VERSION = "1.4.0"
TOKEN = "correct horse"  # noqa: S105

_BACKEND = '''
"""Makes a wheel of the module, with the variant that it was built for (PEP 517, PEP 427)."""

import os
import zipfile

FIELDS = "Name: fastpath\\nVersion: {version}\\n"


def build_wheel(folder, config_settings=None, metadata_directory=None):
    version = os.environ["VARIANT_VERSION"]
    info = f"fastpath-{version}.dist-info"
    with open("src/fastpath.py") as file:
        module = file.read() + f"\\nISA = {os.environ['VARIANT_ISA']!r}\\nFLAGS = {os.environ['VARIANT_FLAGS']!r}\\n"
    files = {
        "fastpath.py": module,
        f"{info}/METADATA": f"Metadata-Version: 2.1\\n{FIELDS.format(version=version)}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\\nGenerator: ci\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{name},,\\n" for name in [*files, f"{info}/RECORD"])
    name = f"fastpath-{version}-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(folder, name), "w") as wheel:
        for path, text in files.items():
            wheel.writestr(path, text)
    return name
'''

_BUILD = """#!/bin/sh -e
rm -rf dist
exec "python$VARIANT_PYTHON" -m pip --disable-pip-version-check wheel --quiet --no-index --no-deps \\
  --no-build-isolation --wheel-dir dist .
"""

_PUBLISH = """#!/bin/sh -e
if [ "$PUBLISH_TOKEN" != 'correct horse' ]; then
  echo "error: the index refuses the token $PUBLISH_TOKEN" >&2
  exit 22
fi
mkdir -p "$INDEX/$VARIANT_ISA/simple/fastpath"
cp "$VARIANT_FILES"/*.whl "$INDEX/$VARIANT_ISA/simple/fastpath/"
"""

FILES = {
    "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["ci"]\n',
    "src/fastpath.py": '"""A module."""\n\n\ndef double(number):\n    return 2 * number\n',
    "ci/backend.py": _BACKEND.lstrip(),
    "ci/build.sh": _BUILD,
    "ci/publish.sh": _PUBLISH,
    ".gitignore": "*-output/\n__pycache__/\ndist/\nbuild/\n",
}
"""The repository's files."""


def write(root: Path) -> None:
    """Writes the project below `root`."""
    for name, text in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        path.chmod(0o755 if text.startswith("#!") else 0o644)


def interpreter(folder: Path, version: str = PYTHON, *, environment: Path | None = None, own_pip: bool = False) -> None:
    """Puts this interpreter into `folder` under the name that the build script calls, which ends in `version`.

    The module venv takes seconds to install pip. So the interpreter keeps the first virtual environment that it makes
    in `environment`, and copies that one from then on; with `own_pip`, it gives a virtual environment its own pip.
    """
    folder.mkdir(parents=True, exist_ok=True)
    program, made = folder / f"python{version}", ""
    if environment:
        made = f"""
  if [ ! -d "{environment}" ]; then
    "{sys.executable}" -m venv "$3" && cp -a "$3" "{environment}"
  else
    cp -al "{environment}" "$3" || cp -a "{environment}" "$3"
  fi
  exit"""
    elif own_pip:
        mine = Path(pip.__file__).parent
        made = f"""
  "{sys.executable}" -m venv --without-pip "$3" || exit
  cp -al "{mine}" "$3/lib/python{PYTHON}/site-packages/" || cp -a "{mine}" "$3/lib/python{PYTHON}/site-packages/"
  exit"""
    copied = f"\nif [ \"$1 $2\" = '-m venv' ]; then{made}\nfi" if made else ""
    program.write_text(f'#!/bin/sh{copied}\nexec "{sys.executable}" "$@"\n', "utf-8")
    program.chmod(0o755)


def spec(smoke: dict[str, Any] | None = None, **command: Any) -> dict[str, Any]:
    """The spec, with a smoke test if one is given, and with keys of the package's `command` changed."""
    commands = {
        "build": "ci/build.sh",
        "files": ["dist/*.whl"],
        "sources": ["src", "ci/backend.py", "pyproject.toml"],
        "install": "pip install --no-deps --index-url http://127.0.0.1:@jobs@/@isa@/simple/ fastpath==@version@",
        "publish": "ci/publish.sh",
        "published": 'test -f "$INDEX/$VARIANT_ISA/simple/fastpath/fastpath-$VARIANT_VERSION-py3-none-any.whl"',
    }
    package = {"disk": 1, "memory": 1, "jobs": 1, "command": commands | command}
    here = ["self-hosted", "linux", "x64"]
    return {
        "version": 1,
        "owner": "my-org",
        "backend": "command",
        "branches": {"main": {"cuda": "12.8", "versions": {"fastpath": VERSION}}},
        "packages": {"fastpath": package | ({"smoke": smoke} if smoke else {})},
        "matrix": {"python": [PYTHON], "isas": {"x86_64-linux": ["avx", "avx2"]}, "gpus": {"cpu": {}}},
        "runners": {
            "builder": {"runs-on": [*here, "builder"], "stages": ["build", "publish"]},
            "tester": {"runs-on": [*here, "tester"], "stages": ["cpu-test"], "cpu": ["avx2"]},
        },
        "publish": {"environment": "release", "on-shared-machines": True},
    }
