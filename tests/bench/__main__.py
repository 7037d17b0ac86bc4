"""`python -m tests.bench [VARIANTS…]`: start-up, compile and check of the bundled stack and of synthetic fleets.

The floor is PyYAML's C dumper writing the very same documents in the same run: the ratio to it holds from machine to
machine where seconds do not.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

from ci_compiler.pipeline import compile_files, plan
from ci_compiler.spec.build import BUNDLED, parse_spec
from tests.bench.fleets import SHAPES, fleet
from tests.bench.measure import CI_COMPILE, PYTHON, call, process


def start_up() -> None:
    bare = process([PYTHON, "-c", "pass"], runs=9)
    version = process([*CI_COMPILE, "--version"], runs=9)
    print(f"bare python          {bare}")
    print(f"--version            {version}; {version.median - bare.median:.3f} s above bare python")


def compiling(title: str, spec: bytes) -> None:
    runs = 5 if len(spec) < 5_000 else 3
    decided = plan(parse_spec(spec, shown="ci-matrix.yaml"))
    variants = sum(len(shard.variants) for shard in decided.shards)
    files = compile_files(decided)
    size = sum(map(len, files.values()))
    print(f"\n{title}: {variants:,} variants, {len(files):,} files, {size / 1e6:.1f} MB")
    memory = call(lambda: compile_files(plan(parse_spec(spec, shown="ci-matrix.yaml"))), runs=runs)
    print(f"  spec to text       {memory}; {variants / memory.median:,.0f} variants/s")
    documents = [yaml.load(text, Loader=yaml.CSafeLoader) for text in files.values()]
    floor = call(lambda: [yaml.dump(one, Dumper=yaml.CSafeDumper) for one in documents], runs=runs)
    print(f"  floor (C dumper)   {floor}; spec to text takes {memory.median / floor.median:.2f} of it")
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "spec.yaml").write_bytes(spec)
        options = ["--root", folder, "--spec", f"{folder}/spec.yaml"]
        subprocess.run([*CI_COMPILE, *options], check=True, stdout=subprocess.DEVNULL)
        check = process([*CI_COMPILE, "--check", *options], runs=runs)
        print(f"  --check, process   {check}; {check.megabytes:.0f} MB")


def main() -> None:
    chosen = [int(word) for word in sys.argv[1:]] or list(SHAPES)
    start_up()
    compiling("bundled stack", BUNDLED.read_bytes())
    for variants in chosen:
        compiling(f"fleet of about {variants:,}", fleet(variants))


if __name__ == "__main__":
    main()
