"""`python -m tests.mutation [--own] [--jobs N] [--most N] [MODULE…]`: mutants killed and surviving, module by module.

Without `--own`, all mutants of the modules in `SUBJECTS` are judged by the tests listed there, and nine in ten must be
killed. With `--own`, a sample of twenty mutants of each module in `PARTS` is judged by the module's own test file
alone, and four in five must be killed. The beginning of a path names all modules whose paths begin with it.

Ends with 1 where fewer are killed, and with 2 where the tests fail unmutated. The working tree is read once, and only
copies of it are changed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.mutation.mutants import Mutant, mutants
from tests.mutation.subjects import SUBJECTS, equivalents, modules, own_test

ROOT = Path(__file__).resolve().parents[2]
COPIED = ("ci_compiler", "tests", "pyproject.toml", "README.md", "LICENSE", ".github", ".flox", "runner-images")
WANTED, WANTED_OF_OWN = 0.9, 0.8
"""The shares of mutants that the tests of `SUBJECTS`, and a module's own test file, must kill."""

SAMPLE = 20
"""How many mutants of a module its own test file must judge."""


def copy_of_the_tree(folder: Path) -> Path:
    """A copy of what the tests need in `folder`; the checkers' packages, which nothing changes, are linked."""
    root = folder / "tree"
    root.mkdir(parents=True)
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            ignored = shutil.ignore_patterns("node_modules", "__pycache__")
            shutil.copytree(source, root / name, symlinks=True, ignore=ignored)
        elif source.exists():
            shutil.copy2(source, root / name)
    packages = ROOT / "tests/checkers/node_modules"
    if packages.is_dir():
        (root / "tests/checkers/node_modules").symlink_to(packages)
    (folder / "tmp").mkdir()
    return root


def work(root: Path, module: str, tests: Sequence[str], chosen: Sequence[Mutant], seconds: int) -> Counter[str]:
    """The verdicts on `chosen` by `tests` in the copy at `root`; a survivor is printed when it is found."""
    texts = list(enumerate(mutant.text for mutant in chosen))
    present = [name for name in tests if (root / name).exists()]
    job = json.dumps({"module": module, "mutants": texts, "tests": present, "seconds": seconds})
    environment = {**os.environ, "PYTHONPATH": str(root), "TMPDIR": str(root.parent / "tmp")}
    command = [sys.executable, "-m", "tests.mutation.worker"]
    verdicts: Counter[str] = Counter()
    with subprocess.Popen(
        command, cwd=root, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(job)
        process.stdin.close()
        for number, verdict in map(str.split, process.stdout):
            verdicts[verdict] += 1
            mutant = chosen[int(number)]
            if verdict == "survived" and mutant.line:
                print(f"  {module}:{mutant.line}: {mutant.what}", flush=True)
    return verdicts


def judged(
    roots: Sequence[Path], module: str, tests: Sequence[str], chosen: Sequence[Mutant], seconds: int
) -> Counter[str]:
    """The verdicts on `chosen`, in all copies at once. Raises SystemExit (2) where the tests fail without a mutant."""
    unchanged = Mutant(line=0, what="nothing", text=(ROOT / module).read_text("utf-8"))
    if not work(roots[0], module, tests, [unchanged], 600)["survived"]:
        print(f"{module}: {', '.join(tests)} is missing, or fails as it is", file=sys.stderr)
        raise SystemExit(2)
    count = len(roots)
    with ThreadPoolExecutor(count) as pool:
        parts = pool.map(lambda at: work(roots[at], module, tests, chosen[at::count], seconds), range(count))
        return sum(parts, Counter())


def sampled(module: str, most: int) -> list[Mutant]:
    """At most `most` mutants of `module`, the same each time, without those that are known to change nothing."""
    known = equivalents().get(module, {})
    every = [mutant for mutant in mutants((ROOT / module).read_text("utf-8")) if mutant.what not in known]
    if not most or most >= len(every):
        return every
    return sorted(random.Random(module).sample(every, most), key=lambda mutant: mutant.line)  # noqa: S311


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "modules", nargs="*", metavar="MODULE", help="modules, by their paths or the beginnings of these"
    )
    parser.add_argument("--own", action="store_true", help="by each module's own test file alone, twenty mutants each")
    parser.add_argument("--jobs", type=int, default=2, help="mutants tested at once")
    parser.add_argument("--most", type=int, default=0, help="a sample of so many mutants a module, the same each time")
    parser.add_argument("--seconds", type=int, default=60, help="the time limit of one mutant")
    given = parser.parse_args()
    most, wanted = given.most or SAMPLE * given.own, WANTED_OF_OWN if given.own else WANTED
    subjects = {module: (own_test(module),) for module in modules()} if given.own else SUBJECTS
    chosen = [module for module in subjects if not given.modules or module.startswith(tuple(given.modules))]
    failed = not chosen
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        roots = [copy_of_the_tree(Path(folder) / str(number)) for number in range(given.jobs)]
        for module in chosen:
            sample = sampled(module, most)
            began = time.monotonic()
            counts = judged(roots, module, subjects[module], sample, given.seconds)
            share = 1 - counts["survived"] / max(len(sample), 1)
            failed = failed or share < wanted
            took = time.monotonic() - began
            times = f"({counts['timeout']} by time), {took:.0f} s"
            print(f"{module}: {counts.total()} mutants, {share:.1%} killed {times}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
