"""Families of accelerators and their tools are named in their modules and data, and nowhere else.

Names in starters, finding codes and the parser of the short form are what users write. What is left elsewhere is in
`families.txt`, a file and its lines with such a name in a row; these counts only shrink. After lines have gone,
`python -m tests.test_families` corrects the list; it never adds to it.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LEFT = Path(__file__).with_name("families.txt")

FREE = (
    "ci_compiler/codes.py",
    "ci_compiler/findings.toml",
    "ci_compiler/hardware/families/",
    "ci_compiler/spec/axes.py",
    "ci_compiler/spec/shorthand.py",
    "ci_compiler/spec/starters/",
    "runner-images/README.md",
)
"""What may name families."""

_PARTS = (
    "(?<!flox-)cuda|cudnn|(?<![a-z])rocm|nvidia|nvcc|cubin|cuobjdump|fatbin|amdgpu|amd-smi|vulkan|oneapi|jetson|geforce"
)
_WORDS = (
    "tegra|nccl|nvml|ptx|hip|hipcc|hsaco|kfd|xpu|sycl|spir-?v|(?<!bare[ -])metal|instinct|mps|mig|radeon|"
    "gfx[0-9][0-9a-f]*"
)
NAMES = re.compile(
    rf"{_PARTS}|(?<![a-z])(?:{_WORDS})(?![a-z])|(?<![a-z])sm(?:_?[1-9][0-9]{{1,2}}[af]?(?![0-9a-z])|_?\{{)",
    re.IGNORECASE,
)
"""Parts of words that nothing else has, words, and the architectures of GPUs, made or written."""

_CODE = re.compile(r"\bCode\.[A-Z_]+")
"""The name of a finding's code."""


def _named(text: str) -> int:
    """The number of lines that name a family."""
    return sum(1 for line in _CODE.sub("", text).splitlines() if NAMES.search(line))


def _found() -> dict[str, int]:
    files = [path for folder in ("ci_compiler", "runner-images") for path in (ROOT / folder).rglob("*")]
    texts = {path.relative_to(ROOT).as_posix(): path for path in files if path.is_file() and path.suffix != ".pyc"}
    counts = {
        name: _named(path.read_text("utf-8", "replace")) + (1 if NAMES.search(path.name) else 0)
        for name, path in sorted(texts.items())
        if not name.startswith(FREE) and not name.startswith("runner-images/archives")
    }
    return {name: count for name, count in counts.items() if count}


def _left() -> dict[str, int]:
    rows = (line.split(maxsplit=1) for line in LEFT.read_text("utf-8").splitlines())
    return {name: int(count) for count, name in rows}


def test_no_family_is_named_outside_its_module() -> None:
    found, left = _found(), _left()
    wrong = [
        f"{name}: {found.get(name, 0)} lines name a family, {left.get(name, 0)} in {LEFT.name}; "
        + ("move what is new to hardware/families" if found.get(name, 0) > left.get(name, 0) else "correct the list")
        for name in sorted(found.keys() | left.keys())
        if found.get(name, 0) != left.get(name, 0)
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "line",
    [
        *("import cuda", "first_cuda: str", "NO_CUDA = 1", "NVIDIA's GPUs", "nvidia-smi", "nvcc", "a cubin", "+PTX"),
        *(
            "sm90",
            "sm_90a",
            "(sm120)",
            'f"sm{major}{minor}"',
            "ROCm",
            "hip",
            "torch.version.hip",
            "HIP_VISIBLE_DEVICES",
        ),
        *(
            "gfx90a",
            "amdgpu",
            "a Radeon",
            "Metal",
            "on metal",
            "xpu",
            "TORCH_XPU_ARCH_LIST",
            "Vulkan",
            "SPIR-V",
            "cudnn",
        ),
    ],
)
def test_a_name_is_found(line: str) -> None:
    assert _named(f"a\n{line}\nb") == 1


@pytest.mark.parametrize(
    "line",
    [
        "relationship",
        "bare metal",
        "a small word",
        "sm4",
        "sm_",
        "metallic",
        "AMD EPYC",
        "chip",
        "integration",
        "procMount",
        "flox-cuda",
        "yield Code.CUDA_OFF, message",
    ],
)
def test_other_words_are_not(line: str) -> None:
    assert _named(line) == 0


if __name__ == "__main__":
    found = _found()
    kept = {name: min(count, found.get(name, 0)) for name, count in _left().items()}
    LEFT.write_text("".join(f"{count} {name}\n" for name, count in kept.items() if count), "utf-8")
