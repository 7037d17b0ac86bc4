# An interpreter as a store path: the one that runs the tests, by another name.
PATH=/usr/bin:/bin

mkdir -p "$out/bin"
printf '#!/bin/sh\nexec %s "$@"\n' "$program" >"$out/bin/python3"
chmod +x "$out/bin/python3"
ln -s python3 "$out/bin/python$pythonVersion"
