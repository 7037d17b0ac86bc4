"""`python -m tests.mutation [--jobs N] [--most N] [MODULE…]`: mutants killed and surviving, module by module.

Ends with 1 where fewer than nine of ten mutants of a module are killed, and with 2 where its tests fail unmutated.
The working tree is read once, and only copies of it are changed.
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
from tests.mutation.subjects import SUBJECTS

ROOT = Path(__file__).resolve().parents[2]
COPIED = ("ci_compiler", "tests", "pyproject.toml", "README.md", "LICENSE", ".github", ".flox", "runner-images")
WANTED = 0.9
"""The share of mutants that the tests must kill."""


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


def work(root: Path, module: str, chosen: Sequence[Mutant], seconds: int) -> Counter[str]:
    """The verdicts on `chosen`, tested in the copy at `root`; a survivor is printed when it is found."""
    tests = [name for name in SUBJECTS[module] if (root / name).exists()]
    texts = list(enumerate(mutant.text for mutant in chosen))
    job = json.dumps({"module": module, "mutants": texts, "tests": tests, "seconds": seconds})
    environment = {**os.environ, "PYTHONPATH": str(root), "TMPDIR": str(root.parent / "tmp")}
    command = [sys.executable, "-m", "tests.mutation.worker"]
    found: Counter[str] = Counter()
    with subprocess.Popen(
        command, cwd=root, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(job)
        process.stdin.close()
        for number, said in map(str.split, process.stdout):
            found[said] += 1
            mutant = chosen[int(number)]
            if said == "survived" and mutant.line:
                print(f"  {module}:{mutant.line}: {mutant.what}", flush=True)
    return found


def tested(module: str, chosen: Sequence[Mutant], jobs: int, seconds: int) -> Counter[str]:
    """The verdicts on `chosen`. Raises SystemExit (2) where the tests fail without any mutant."""
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        roots = [copy_of_the_tree(Path(folder) / str(number)) for number in range(jobs)]
        unchanged = Mutant(line=0, what="nothing", text=(roots[0] / module).read_text("utf-8"))
        if not work(roots[0], module, [unchanged], 600)["survived"]:
            print(f"{module}: its tests fail as it is", file=sys.stderr)
            raise SystemExit(2)
        with ThreadPoolExecutor(jobs) as pool:
            parts = pool.map(lambda number: work(roots[number], module, chosen[number::jobs], seconds), range(jobs))
            return sum(parts, Counter())


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("modules", nargs="*", metavar="MODULE", choices=[[], *SUBJECTS])
    parser.add_argument("--jobs", type=int, default=2, help="mutants tested at once")
    parser.add_argument("--most", type=int, default=0, help="a sample of so many mutants a module, the same each time")
    parser.add_argument("--seconds", type=int, default=60, help="the time limit of one mutant")
    given = parser.parse_args()
    failed = False
    for module in given.modules or SUBJECTS:
        chosen = mutants((ROOT / module).read_text("utf-8"))
        if given.most:
            chosen = sorted(
                random.Random(0).sample(chosen, min(given.most, len(chosen))),  # noqa: S311
                key=lambda mutant: mutant.line,
            )
        began = time.monotonic()
        counts = tested(module, chosen, given.jobs, given.seconds)
        share = 1 - counts["survived"] / len(chosen)
        failed = failed or share < WANTED
        took = time.monotonic() - began
        print(f"{module}: {counts.total()} mutants, {share:.1%} killed ({counts['timeout']} by time), {took:.0f} s")
        sys.stdout.flush()
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
