"""The files that the runner images are built from: `runner-images/` of a checkout, or their copy in the package."""

from __future__ import annotations

import shutil
from pathlib import Path

import ci_compiler
from ci_compiler.codes import Code
from ci_compiler.errors import wrong

_PACKAGE = Path(ci_compiler.__file__).parent

PACKAGED = _PACKAGE / "runner_images"
"""Where the wheel has the files (pyproject.toml)."""

CHECKOUT = _PACKAGE.parent / "runner-images"


def write_image_files(folder: Path) -> None:
    """Copies the files to the new folder `folder`, without archives. Raises InputError."""
    source = PACKAGED if PACKAGED.is_dir() else CHECKOUT
    try:
        shutil.copytree(source, folder, ignore=shutil.ignore_patterns("*.whl", "*.gz", "*.xz", "*.deb", "__pycache__"))
        (folder / "archives").mkdir(exist_ok=True)
    except FileExistsError:
        raise wrong(folder, Code.CANNOT_WRITE, "exists already; name a new folder") from None
    except OSError as error:
        raise wrong(folder, Code.CANNOT_WRITE, f"cannot be written: {error.strerror or error}") from None
