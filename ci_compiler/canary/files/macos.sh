#!/usr/bin/env bash
# Facts about a machine of GitHub with macOS: what jobs of `backend: command` need there.
# shellcheck source-path=SCRIPTDIR source=system.sh
. "$(dirname "$0")/system.sh"

echo "ran=yes"
echo "pipefail=$FAILS"
echo "python=$(yes_if test "$python" != none)"
echo "programs=$(programs)"
echo "sysctl=$(yes_if sysctl -n machdep.cpu.brand_string hw.memsize)"
