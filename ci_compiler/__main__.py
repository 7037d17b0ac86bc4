"""The entry points: of `ci-compile`, also as `python -m ci_compiler`, and of `ci-runner`."""

from __future__ import annotations

import sys

from ci_compiler import __version__
from ci_compiler.cli import quiet_interrupts


def main() -> int:
    """Runs `ci-compile`; a check of what has not changed since it was green ends before anything else is imported."""
    if sys.argv[1:] == ["--version"]:
        print(f"ci-compile {__version__}")
        return 0
    if "--check" in sys.argv:
        with quiet_interrupts():
            from ci_compiler.cli.stamp import matches

            if matches(sys.argv[1:]):
                return 0
    from ci_compiler.cli.compile import main as compile_

    return compile_()


def runner() -> int:
    """Runs `ci-runner`."""
    if sys.argv[1:] == ["--version"]:
        print(f"ci-runner {__version__}")
        return 0
    from ci_compiler.cli.runner import main as runs

    return runs()


if __name__ == "__main__":
    raise SystemExit(main())
