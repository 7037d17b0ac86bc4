#!/usr/bin/env bash
# Builds the wheel of one variant into dist/. The machine needs the variant's Python and ROCm's compilers, and no GPU.
# VARIANT_PYTHON=3.13 VARIANT_ACCELERATOR_TAG=rocm7.1 VARIANT_TARGET=gfx942 VARIANT_JOBS=8 ci/build-wheel.sh
set -euo pipefail

venv=$(mktemp -d)
trap 'rm -rf "$venv"' EXIT
"python$VARIANT_PYTHON" -m venv "$venv"
"$venv/bin/pip" install torch --index-url "https://download.pytorch.org/whl/$VARIANT_ACCELERATOR_TAG"
"$venv/bin/pip" install setuptools wheel ninja

# PyTorch's extensions read the targets here, with semicolons between. Without it, they ask the machine for its GPU.
export PYTORCH_ROCM_ARCH="${VARIANT_TARGET//,/;}" MAX_JOBS="$VARIANT_JOBS"

rm -rf dist
"$venv/bin/pip" wheel --no-deps --no-build-isolation --wheel-dir dist .
