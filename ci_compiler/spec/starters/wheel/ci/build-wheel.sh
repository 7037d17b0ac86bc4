#!/usr/bin/env bash
# Builds the wheel of one variant into dist/. The machine needs the variant's Python and a C compiler. To try it:
# VARIANT_PACKAGE=numpy VARIANT_VERSION=2.3.4 VARIANT_PYTHON=3.13 VARIANT_FLAGS=-mavx2 VARIANT_JOBS=8 ci/build-wheel.sh
set -euo pipefail

venv=$(mktemp -d)
trap 'rm -rf "$venv"' EXIT
"python$VARIANT_PYTHON" -m venv "$venv"

# The compilers get the flags of the instruction set.
export CFLAGS="$VARIANT_FLAGS" CXXFLAGS="$VARIANT_FLAGS" MAX_JOBS="$VARIANT_JOBS"

# From the source that PyPI has. For a project of this repository, write `.` in place of the last two lines.
rm -rf dist
"$venv/bin/pip" wheel --no-deps --wheel-dir dist \
  --no-binary "$VARIANT_PACKAGE" \
  "$VARIANT_PACKAGE==$VARIANT_VERSION"
