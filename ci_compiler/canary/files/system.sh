# shellcheck shell=bash
# What the probes of macOS and Windows share. FAILS says whether a step there ends when a part of a pipe fails.
set -uo pipefail

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

yes_if() { if "$@" >/dev/null 2>&1; then echo yes; else echo no; fi; }

# The first Python that jobs of variants could use.
python=none
for name in python3 python; do
  if [ "$python" = none ] && "$name" -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    python=$name
  fi
done

# The folder of programs in a virtual environment.
programs() {
  "$python" -m venv --without-pip "$scratch/environment" >/dev/null 2>&1
  if [ -e "$scratch/environment/Scripts/python.exe" ]; then echo Scripts; else echo bin; fi
}
