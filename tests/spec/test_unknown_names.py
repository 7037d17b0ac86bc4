"""Names that the hardware tables lack: what is right, or why a plausible name is wrong."""

from __future__ import annotations

import pytest

from ci_compiler.spec.load import Path_
from ci_compiler.spec.unknown_names import look_up
from tests.specs import small, spec_of

DECLARATION = 'hardware: {toolkits: {"14.0": {attribute: cudaPackages_14_0, shipped-driver: N, lowest-driver: N}}}'
SPEC = spec_of(small())
KNOWN = f"known are {', '.join(SPEC.hardware.toolkits)}"
GPUS: Path_ = ("matrix", "gpus")
TOOLKIT: Path_ = ("branches", "main", "cuda")


def said(table: str, path: Path_, name: str, **extra: str) -> list[tuple[str, str, int]]:
    """The code and the message about `name`, and the column in the file."""
    found = look_up(SPEC, path, getattr(SPEC.hardware, table), name, key=path == GPUS, **extra)
    return [(finding.code, finding.message, finding.place.column) for finding in found]


def test_a_known_name_is_no_error() -> None:
    assert [said("gpu", GPUS, "sm90"), said("toolkit", TOOLKIT, "12.8"), said("isa", GPUS, "avx2")] == [[], [], []]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("h100", "'h100' is a product; write its architecture, sm90"),
        ("RTX 4090", "'RTX 4090' is a product; write its architecture, sm89"),
        ("9.0", "'9.0' is called sm90 here"),
        ("sm_90", "'sm_90' is called sm90 here"),
        ("compute_90a", "'compute_90a' is called sm90 here"),
        ("none", "'none' is called cpu here: the variants without a GPU"),
        ("sm91", "unknown GPU 'sm91'; did you mean sm90 or sm89 or sm61?"),
    ],
)
def test_what_to_write_in_place_of_an_unknown_gpu(name: str, message: str) -> None:
    [(code, words, _)] = said("gpu", (*GPUS, 0), name)
    assert (code, words) == ("unknown-gpu", message)


def test_another_name_that_is_valid_there_is_named() -> None:
    [(_, message, column)] = said("gpu", GPUS, "sm91", extra="all")
    assert message == "unknown GPU 'sm91'; did you mean sm90 or sm89 or sm61? (or all)"
    assert column == SPEC.place(*GPUS, key=True).column


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "14.0",
            f"unknown CUDA toolkit '14.0'; did you mean 13.0? To declare it: {DECLARATION}",
        ),
        ("99.0", f"unknown CUDA toolkit '99.0'; {KNOWN}. To declare it: {DECLARATION.replace('14', '99')}"),
        ("x", f"unknown CUDA toolkit 'x'; {KNOWN}"),
    ],
)
def test_how_an_unknown_toolkit_is_declared(name: str, message: str) -> None:
    [(code, words, _)] = said("toolkit", TOOLKIT, name)
    assert code == "unknown-toolkit"
    assert words == message


def test_an_unknown_isa_is_not_declared_as_a_toolkit() -> None:
    [(code, words, _)] = said("isa", (*GPUS, 0), "14.0")
    assert (code, words) == ("unknown-isa", f"unknown ISA '14.0'; known are {', '.join(sorted(SPEC.hardware.isas))}")
