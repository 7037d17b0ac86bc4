"""Families of accelerators and their tools are named in their modules and data, and nowhere else.

Names in starters, finding codes, the short form and its parser are what users write. Documents are for people:
comments, docstrings, what the reference prints of a key (its description, title and examples), the help of an option.
"""

from __future__ import annotations

import ast
import io
import json
import re
import tokenize
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.rows import for_each_row

ROOT = Path(__file__).parents[1]

FREE = (
    "ci_compiler/cli/options.py",  # the names of options
    "ci_compiler/cli/runner/smoke.py",
    "ci_compiler/adoption/standin/python.nix",  # what nixpkgs' torch has
    "ci_compiler/codes.py",
    "ci_compiler/findings.toml",
    "ci_compiler/hardware/families/",
    "ci_compiler/spec/axes.py",
    "ci_compiler/spec/reasons.toml",  # what people write, and what is right
    "ci_compiler/spec/releases.json",  # the arguments of nixpkgs' torch
    "ci_compiler/spec/schema.json",  # compiled from the declared keys
    "ci_compiler/spec/shorthand/",
    "ci_compiler/spec/starters/",
    "runner-images/archives",
    "runner-images/gpu-tester/",  # an image of the family `cuda`
)
"""What may name families."""

PROSE = (".md", ".html", ".pyc")
"""Files that are documents."""

_PARTS = (
    "(?<!flox-)cuda|cudnn|(?<![a-z])rocm|nvidia|nvcc|cubin|cuobjdump|fatbin|amdgpu|amd-smi|vulkan|oneapi|jetson|geforce|"
    "davinci"
)
_WORDS = (
    "tegra|nccl|nvml|ptx|hip|hipcc|hsaco|kfd|xpu|sycl|spir-?v|(?<!bare[ -])metal|instinct|mps|mig|radeon|"
    "gfx[0-9][0-9a-f]*|cann|npu|hccl|aclnn|(?:ascend|atlas)(?:[0-9][0-9a-z]*)?"
)
NAMES = re.compile(
    rf"{_PARTS}|(?<![a-z])(?:{_WORDS})(?![a-z])|(?<![a-z])sm(?:_?[1-9][0-9]{{1,2}}[af]?(?![0-9a-z])|_?\{{)",
    re.IGNORECASE,
)
"""Parts of words that nothing else has, words, and the architectures of GPUs, made or written."""

_CODE = re.compile(r"\bCode\.[A-Z_]+")
"""The name of a finding's code."""

_COMMENT = re.compile(r"^\s*(?:#|//|/?\*).*|(?<=\s)(?:#|//) .*", re.MULTILINE)
"""A comment of Nix, a shell or JavaScript."""

_PROSE = frozenset({"description", "help", "title", "examples", "source", "note", "cpus", "good_for", "flags"})
"""The keys of tables, and the arguments of a declared key, that hold what people read, or what they type: options."""

_DECLARED = frozenset({"key", "optional", "form"})
"""The functions whose first argument is the description of a key."""


def _prose(node: ast.AST) -> Iterator[ast.expr]:
    """The texts for people in a Python node: a docstring, what the reference prints of a key."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        yield node.value
    if isinstance(node, ast.Call):
        yield from (word.value for word in node.keywords if word.arg in _PROSE)
        if isinstance(node.func, ast.Name) and node.func.id in _DECLARED:
            yield from node.args[:1]


def _code(text: str) -> str:
    """A Python module without its documentation: what is left is what it does."""
    rows = text.encode().split(b"\n")
    for node in (prose for outer in ast.walk(ast.parse(text)) for prose in _prose(outer)):
        for row in range(node.lineno - 1, node.end_lineno or 0):
            first = node.col_offset if row == node.lineno - 1 else 0
            last = node.end_col_offset if row == (node.end_lineno or 0) - 1 else len(rows[row])
            rows[row] = rows[row][:first] + b" " * ((last or 0) - first) + rows[row][last or 0 :]
    code = b"\n".join(rows).decode()
    comments = [one for one in tokenize.generate_tokens(io.StringIO(code).readline) if one.type == tokenize.COMMENT]
    lines = code.split("\n")
    for one in comments:
        lines[one.start[0] - 1] = lines[one.start[0] - 1][: one.start[1]]
    return "\n".join(lines)


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(inner, dict) for inner in value)


def _rows(value: Any) -> Iterator[str]:
    """The keys and the values of a table, without the prose in it."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield name
            yield from () if name in _PROSE and isinstance(inner, str | list) and not _is_table(inner) else _rows(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _rows(inner)
    elif isinstance(value, str):
        yield value


def _stated(path: Path) -> str:
    """What a file states to the program, without what it says to people."""
    text = path.read_text("utf-8", "replace")
    if path.suffix == ".py":
        return _CODE.sub("", _code(text))
    if path.suffix in {".json", ".toml"}:
        return "\n".join(_rows(json.loads(text) if path.suffix == ".json" else tomllib.loads(text)))
    return _COMMENT.sub("", text)


def _named(text: str) -> list[str]:
    """The lines that name a family."""
    return [line.strip() for line in text.splitlines() if NAMES.search(line)]


@pytest.mark.slow
def test_no_family_is_named_outside_its_module() -> None:
    files = [path for folder in ("ci_compiler", "runner-images") for path in (ROOT / folder).rglob("*")]
    texts = {path.relative_to(ROOT).as_posix(): path for path in files if path.is_file() and path.suffix not in PROSE}
    wrong = [
        f"{name}: {line[:120]!r} names a family; move the fact to hardware/families"
        for name, path in sorted(texts.items())
        if not name.startswith(FREE)
        for line in _named(_stated(path)) + _named(path.stem)
    ]
    assert not wrong, "\n".join(wrong)


@for_each_row(
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
            "cann",
            "ASCEND_RT_VISIBLE_DEVICES",
            "ascend910b1",
            "torch_npu",
            "/dev/davinci0",
        ),
    ],
)
def test_a_name_is_found(line: str) -> None:
    assert _named(f"a\n{line}\nb") == [line]


@for_each_row(
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
        "cannot",
        "ascending",
        "scan n",
        "yield Code.CUDA_OFF, message",
    ],
)
def test_other_words_are_not(line: str) -> None:
    assert not _named(_CODE.sub("", line))
