"""The probe by itself: which GPU it takes."""

from __future__ import annotations

import struct
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from ci_compiler.hardware.families.machines import machines_of
from ci_compiler.runner.jobs.smoke_probe import checks, gpu_libraries, shared


@pytest.fixture(autouse=True)
def family(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared, "_FAMILY", {})
    shared.use_family(machines_of("cuda").probe)


@pytest.mark.parametrize(
    ("built", "there", "runs"),
    [((8, 6), (8, 9), True), ((8, 9), (8, 6), False), ((8, 0), (9, 0), False), ((12, 0), (12, 1), True)],
)
def test_a_gpu_runs_a_build_for_the_same_major_capability_and_no_higher_minor(
    monkeypatch: pytest.MonkeyPatch, built: tuple[int, int], there: tuple[int, int], runs: bool
) -> None:
    cuda = SimpleNamespace(
        is_available=lambda: True,
        device_count=lambda: 1,
        get_device_name=lambda _: "GPU",
        get_device_capability=lambda _: there,
    )
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    wanted = {"targets": ["sm_{}{}".format(*built)], "device_kind": "cuda"}
    if runs:
        assert checks.gpu(wanted) == "cuda:0"
    else:
        with pytest.raises(checks.WrongError, match="no GPU runs sm_"):
            checks.gpu(wanted)


def fat_binary(*entries: tuple[int, int]) -> bytes:
    """A fat binary with entries of a kind and an architecture each (fatbinary.h), among other bytes."""
    rows = b"".join(
        struct.pack("<HHIQIIHHI", kind, 1, 64, 8, 0, 0, 0, 0, arch).ljust(72, b"\0") for kind, arch in entries
    )
    return b"\x50\xed\x55\xba other" + struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(rows)) + rows + b"rest"


@pytest.mark.parametrize(
    ("entries", "capability", "said"),
    [
        ([(2, 80), (2, 90), (1, 120)], (9, 0), "NCCL has ptx sm_120, cubin sm_80 sm_90"),
        ([(2, 80)], (8, 6), "NCCL has cubin sm_80"),
        ([(2, 70), (1, 70)], (9, 0), "NCCL has ptx sm_70, cubin sm_70; the driver compiles it for sm_90"),
        ([(2, 70), (2, 75)], (6, 1), None),
        ([(2, 90), (1, 120)], (11, 0), None),
    ],
)
def test_nccl_needs_code_for_the_gpu(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    entries: list[tuple[int, int]],
    capability: tuple[int, int],
    said: str | None,
) -> None:
    library = tmp_path / "libnccl.so.2"
    library.write_bytes(fat_binary(*entries))
    torch = SimpleNamespace(cuda=SimpleNamespace(get_device_capability=lambda _: capability))
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setattr(gpu_libraries, "loaded", lambda: ["/lib/libc.so.6", str(library)])
    if said is not None:
        assert gpu_libraries.collectives("cuda:0") == said
    else:
        with pytest.raises(checks.WrongError, match=f"which does not run on sm_{capability[0]}{capability[1]}"):
            gpu_libraries.collectives("cuda:0")
