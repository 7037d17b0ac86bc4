"""Fleets of about as many variants as one asks for: the bundled stack, and synthetic ones of its make."""

from __future__ import annotations

import json
from typing import Any

from ci_compiler.spec.build import BUNDLED
from tests.specs import UNKNOWN_PIN

GPUS = ["cpu", "sm75", "sm80", "sm86", "sm89", "sm90", "sm100", "sm103", "sm120"]
ISAS = {"x86_64-linux": ["avx2", "avx512", "avx512bf16", "avx512vnni"], "aarch64-linux": ["armv8_2", "armv9"]}
CELLS = len(GPUS) * sum(map(len, ISAS.values()))

STACK = 459
"""The variants of the bundled stack, which stands for a fleet of that size."""

SHAPES = {1_300: (8, 1, 3), 10_000: (20, 3, 3), 100_000: (40, 4, 12)}
"""Variants -> branches, Pythons and packages that make about as many."""

PACKAGES = ("pytorch", "torchvision", "torchaudio")
"""What nixpkgs (and the stand-in for it that recipes are evaluated with) has; packages beyond are made up."""


def fleet(variants: int) -> bytes:
    """A spec of about so many variants, as YAML (JSON is YAML; the block style is the bundled spec's)."""
    if variants == STACK:
        return BUNDLED.read_bytes()
    branches, pythons, packages = SHAPES[variants]
    names = [*PACKAGES, *(f"package{index}" for index in range(len(PACKAGES), packages))]
    builder = {"count": 8, "cores": 64, "memory": 256, "disk": 800}
    document: dict[str, Any] = {
        "version": 1,
        "owner": "my-org",
        "branches": {
            f"branch-{index}": {
                "cuda": "12.9",
                "nixpkgs": UNKNOWN_PIN,
                "versions": dict.fromkeys(names, f"9.{index}.0"),  # no table knows what goes with it
            }
            for index in range(branches)
        },
        "packages": {name: {"needs": names[:1]} for name in names} | {names[0]: {"attribute": "torch"}},
        "matrix": {
            "python": [f"3.{11 + index}" for index in range(pythons)],
            "isas": ISAS,
            "gpus": {g: {} for g in GPUS},
        },
        "runners": {
            "x86": {"runs-on": ["self-hosted", "linux", "x64", "nix"], "cpu": ["avx512bf16", "avx512vnni"], **builder},
            "arm": {"runs-on": ["self-hosted", "linux", "arm64", "nix"], "cpu": ["armv9"], **builder},
            "h100": {"runs-on": ["self-hosted", "linux", "x64", "gpu-sm90"], "gpu": "sm90", "cpu": ["avx512bf16"]},
        },
        "publish": {"on-shared-machines": True},
    }
    return json.dumps(document, indent=1).encode()
