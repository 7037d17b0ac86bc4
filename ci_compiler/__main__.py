"""`ci-compile` as `python -m ci_compiler`."""

from __future__ import annotations

from ci_compiler.cli.compile import main

if __name__ == "__main__":
    raise SystemExit(main())
