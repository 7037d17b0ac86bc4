"""`python -m tests.fuzz TARGET --seconds N`: feeds a target inputs that reach new code, until one breaks it.

atheris (libFuzzer) makes the inputs: `pip install atheris`. What it finds on the way is kept in a folder of its own
(`--found`), never in the corpus; an input that breaks the target is written there as `crash-…`, `timeout-…` or `oom-…`.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from tempfile import gettempdir

CORPUS = Path(__file__).with_name("corpus")

SLOWEST = 20
"""Seconds after which an input counts as a hang."""

MOST_MEMORY = 2048
"""MB of memory that no input may make it take."""


def main() -> None:
    """Fuzzes the target that is named."""
    try:
        import atheris
    except ImportError:
        sys.exit("python -m tests.fuzz needs atheris: pip install atheris")
    with atheris.instrument_imports(include=["ci_compiler", "ruamel"]):
        from tests.fuzz.targets import LARGEST, TARGETS

    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.partition("\n")[0])
    parser.add_argument("target", choices=TARGETS, metavar="TARGET", help=", ".join(TARGETS))
    parser.add_argument("--seconds", type=int, metavar="N", default=600, help="how long; 600")
    parser.add_argument("--found", type=Path, metavar="DIR", help="where inputs that reach new code are kept")
    arguments = parser.parse_args()
    found: Path = arguments.found or Path(gettempdir()) / "ci-compiler-fuzz" / arguments.target
    found.mkdir(parents=True, exist_ok=True)
    words = found.parent / f"{arguments.target}.dict"
    words.write_text("\n".join(_words(arguments.target)), "utf-8")
    options = [
        f"-max_total_time={arguments.seconds}",
        f"-max_len={LARGEST}",
        f"-timeout={SLOWEST}",
        f"-rss_limit_mb={MOST_MEMORY}",
        f"-dict={words}",
        f"-artifact_prefix={found}/",
        "-print_final_stats=1",
    ]
    atheris.Setup([sys.argv[0], *options, str(found), str(CORPUS / arguments.target)], TARGETS[arguments.target])
    atheris.Fuzz()


def _words(target: str) -> list[str]:
    """The words of a target's corpus, in libFuzzer's form: it puts them in where bytes alone would not come to them."""
    texts = [path.read_bytes() for path in sorted((CORPUS / target).iterdir())]
    pattern = re.compile(rb"[A-Za-z_][A-Za-z0-9_./-]{2,40}|[^\sA-Za-z0-9]{1,3}")
    words = sorted({word for text in texts for word in pattern.findall(text)})
    return ['"' + "".join(rf"\x{byte:02x}" for byte in word) + '"' for word in words]


if __name__ == "__main__":
    main()
