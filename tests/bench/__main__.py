"""`python -m tests.bench [--only NAME] [VARIANTS…]`: start-up, and every command that works on a whole fleet.

Measures whole processes: the median, minimum and maximum of several runs, the ratio to `python -c pass`, and the peak
memory of the largest child. The floor of compiling is PyYAML's C dumper writing the same documents in the same run.
Both ratios are comparable between machines, unlike seconds.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Collection
from pathlib import Path

import yaml

from ci_compiler.plan.pipeline import plan
from ci_compiler.spec.build import parse_spec
from ci_compiler.sync.compiled import compile_files
from tests.bench.commands import BENCHMARKS
from tests.bench.fleets import SHAPES, STACK, fleet
from tests.bench.measure import CI_COMPILE, PYTHON, call, process
from tests.bench.repository import repository

SIZES = (STACK, *SHAPES)
START, TEXT = "start-up", "text"
LARGE = 100_000
"""From this number of variants on, only text, compile and check are measured unless others are asked for."""


def start_up() -> None:
    """The cost of the interpreter, and of the smallest command."""
    print(f"bare Python    {process([PYTHON, '-c', 'pass'], runs=9)}")
    print(f"--version      {process([*CI_COMPILE, '--version'], runs=9)}")


def compiling(spec: bytes, *, runs: int) -> None:
    """From a spec's text to the files' text, in this process, and the floor."""
    files = compile_files(plan(parse_spec(spec, shown="ci-matrix.yaml")))
    print(f"  {len(files):,} files, {sum(map(len, files.values())) / 1e6:.1f} MB")
    memory = call(lambda: compile_files(plan(parse_spec(spec, shown="ci-matrix.yaml"))), runs=runs)
    print(f"  spec to text   {memory}")
    workflows = [text for path, text in files.items() if path.endswith(".yml")]
    documents = [yaml.load(text, Loader=yaml.CSafeLoader) for text in workflows]
    floor = call(lambda: [yaml.dump(one, Dumper=yaml.CSafeDumper) for one in documents], runs=runs)
    print(f"  floor          {floor}; spec to text takes {memory.median / floor.median:.2f} of it")


def measure(size: int, names: Collection[str], *, runs: int) -> None:
    """All benchmarks called `names` with a fleet of about `size` variants."""
    print(f"\nabout {size:,} variants", flush=True)
    if TEXT in names:
        compiling(fleet(size), runs=runs)
    chosen = {name: one for name, one in BENCHMARKS.items() if name in names}
    if not chosen:
        return
    with tempfile.TemporaryDirectory() as folder:
        made = repository(Path(folder), size, every=any(one.every for one in chosen.values()))
        print(f"  {made.variants:,} variants, {made.own:,} of them on {made.branch}")
        for name, one in chosen.items():
            figure = one.measure(made, runs=max(1, runs // 3) if one.nix else runs)
            print(f"  {name:<14} {figure}; {figure.megabytes:.0f} MB  ({one.what})", flush=True)


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench")
    parser.add_argument("--only", action="append", choices=(START, TEXT, *BENCHMARKS), help="measure this; may repeat")
    parser.add_argument("variants", nargs="*", type=int, metavar="VARIANTS", help=", ".join(map(str, SIZES)))
    arguments = parser.parse_args()
    if unknown := set(arguments.variants) - set(SIZES):
        parser.error(f"no fleet of {min(unknown)} variants; there are {', '.join(map(str, SIZES))}")
    if not arguments.only or START in arguments.only:
        start_up()
    for size in arguments.variants or SIZES:
        names = arguments.only or ((TEXT, *BENCHMARKS) if size < LARGE else (TEXT, "compile", "check"))
        measure(size, names, runs=5 if size < 5_000 else 3 if size < LARGE else 1)


if __name__ == "__main__":
    main()
