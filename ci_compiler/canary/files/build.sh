#!/usr/bin/env bash
# Builds the canary's wheel into canary-dist/: one module, without a build backend or a network (PEP 427).
set -euo pipefail
rm -rf canary-dist
mkdir canary-dist
exec "python$VARIANT_PYTHON" - <<'END'
import os
import zipfile

name, version = "ci_compile_canary", os.environ["VARIANT_VERSION"]
info = f"{name}-{version}.dist-info"
files = {
    "canary.py": f'"""A package that says which instruction set it is for."""\n\nISA = {os.environ["VARIANT_ISA"]!r}\n',
    f"{info}/METADATA": f"Metadata-Version: 2.1\nName: ci-compile-canary\nVersion: {version}\n",
    f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: ci-compile\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
}
files[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
with zipfile.ZipFile(f"canary-dist/{name}-{version}-py3-none-any.whl", "w") as wheel:
    for path, text in files.items():
        wheel.writestr(path, text)
END
