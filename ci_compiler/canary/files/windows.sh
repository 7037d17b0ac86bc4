#!/usr/bin/env bash
# Facts about a machine of GitHub with Windows: what jobs of `backend: command` need there.
# shellcheck source-path=SCRIPTDIR source=system.sh
. "$(dirname "$0")/system.sh"

git_bash='import pathlib, shutil, sys
folders = pathlib.Path(shutil.which("git")).parents
sys.exit(not any((folder / "bin/bash.exe").is_file() for folder in folders))'
long_path='import os, sys; os.makedirs(os.path.join(sys.argv[1], *["long" * 25] * 3))'
memory='(Get-CimInstance Win32_ComputerSystem).TotalPhysicalMemory'

echo "ran=yes"
echo "pipefail=$FAILS"
echo "python=$(yes_if test "$python" != none)"
echo "programs=$(programs)"
echo "git-bash=$(yes_if "$python" -c "$git_bash")"
echo "long-paths=$(yes_if "$python" -c "$long_path" "$scratch")"
echo "taskkill=$(yes_if command -v taskkill)"
echo "powershell=$(yes_if powershell -NoProfile -NonInteractive -Command "$memory")"
