"""The entry point of `ci-compile`, also as `python -m ci_compiler`."""

from __future__ import annotations

import sys

from ci_compiler.cli import quiet_interrupts


def main() -> int:
    """Runs `ci-compile`; a check of what has not changed since it was green ends before anything else is imported."""
    if "--check" in sys.argv:
        with quiet_interrupts():
            from ci_compiler.cli.stamp import matches

            if matches(sys.argv[1:]):
                return 0
    from ci_compiler.cli.compile import main as compile_

    return compile_()


if __name__ == "__main__":
    raise SystemExit(main())
