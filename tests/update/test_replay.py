"""The bundled stack as it was one release earlier: `update` brings it to what it is today."""

from __future__ import annotations

import difflib
import re
from itertools import pairwise

from ci_compiler.spec.build import BUNDLED
from tests.recipes.test_affected import Repository
from tests.specs import PIN, UNKNOWN_PIN
from tests.update.conftest import FILE
from tests.update.upstreams import TORCH, Upstreams

NEWER = "6a030d535719c5190187c4cec156f335e95e3211"


def reduced() -> str:
    """The bundled spec with fewer GPUs and ISAs, which take time and change nothing that is edited."""
    text = BUNDLED.read_text("utf-8")
    text = text.replace("[avx2, avx512, avx512bf16, avx512vnni]", "[avx2]").replace("[armv8_2, armv9]", "[armv9]")
    return re.sub(r"\n    sm(?!90|121)\d+:.*", "", text.replace("cpu: {also: {cuda-13_0: [avx]}}", "cpu:"))


def earlier() -> str:
    """The spec with each branch at the release before its own."""
    text = reduced()
    start, end = text.index("    sources:  # newer"), text.index("    work-arounds:")
    text = text[:start] + "    pnames: {pytorch: pytorch29}\n" + text[end:]
    releases = ("2.7.1", "0.22.1"), ("2.8.0", "0.23.0"), ("2.9.1", "0.24.1"), ("2.10.0", "0.25.0")
    rows = [f"{{pytorch: {torch}, torchvision: {vision}, torchaudio: {torch}}}" for torch, vision in releases]
    for now, before in (
        *((now, before) for before, now in pairwise(rows)),
        (f'cuda: "12.8"\n    nixpkgs: {PIN}', f'cuda: "12.8"\n    nixpkgs: {UNKNOWN_PIN}'),
        (f'cuda: "12.9"\n    nixpkgs: {NEWER}', f'cuda: "12.9"\n    nixpkgs: {PIN}'),
    ):
        assert text.count(now) == 1
        text = text.replace(now, before)
    return text


def test_the_bundled_stack_is_reached_from_the_release_before(fleet: Repository, upstreams: Upstreams) -> None:
    for versions in (("2.7.1", "0.22.1", "2.7.1"), ("2.9.1", "0.24.1", "2.9.1"), ("2.10.0", "0.25.0", "2.10.0")):
        upstreams.release(*versions)
    fleet.write(FILE, earlier())
    for branch, version in (("cuda-13_0", "2.10.0"), ("cuda-12_9", "2.9.1"), ("main", "2.8")):
        assert fleet.ci("update", "pytorch", "--to", version, "--branch", branch) == 0
    hashes = re.compile("sha256-.*|[0-9a-f]{40}$")
    today, made = (
        [hashes.sub("…", line) for line in one.splitlines()]
        for one in (reduced(), (fleet.root / FILE).read_text("utf-8"))
    )
    left = [line for line in difflib.ndiff(sorted(today), sorted(made)) if line[0] in "+-"]
    assert left == [
        *["+         commit: …"] * 3,
        "-     sources:  # newer than that nixpkgs has",
        "+     sources:",
    ]
    pins = [line for line in (fleet.root / FILE).read_text("utf-8").splitlines() if "nixpkgs: " in line]
    assert pins == [f"    nixpkgs: {one}" for one in (PIN, NEWER, NEWER)]
    assert upstreams.git(TORCH, "rev-parse", "v2.10.0^{commit}") in (fleet.root / FILE).read_text("utf-8")
