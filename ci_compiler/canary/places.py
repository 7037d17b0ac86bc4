"""Where the files of the canary are, and how they are recognised."""

from __future__ import annotations

FOLDER = ".github/canary"
SPEC_FILE = f"{FOLDER}/ci-matrix.yaml"
GUIDE = "https://github.com/flox-cuda/ci-compiler/blob/main/.github/docs/first-contact.md"
MARK = "Written by ci-compile canary"
"""The mark in the first line of each workflow of the canary. `ci-compile` leaves files with it alone."""
