#!/usr/bin/env bash
# Runs the jobs of a small wheel on a machine of GitHub: hosted.sh MACHINE PLATFORM FOLDER. On Windows, in Git's Bash.
set -euo pipefail
machine=$1 platform=$2 folder=$3/fleet
python=$(python -c 'import sys; print("%d.%d" % sys.version_info[:2])')
name=hello-python${python/./}-cpu-$platform

mkdir -p "$folder"/{ci,.github} "$folder.index"
cd "$folder"
git init --quiet --initial-branch main
git config user.name Tests
git config user.email tests@example.com
git config core.autocrlf false

cat >ci/wheel.py <<'PYTHON'
"""Writes a wheel with one module to the folder dist."""

import os
import zipfile
from pathlib import Path

version = os.environ["VARIANT_VERSION"]
info = f"hello-{version}.dist-info"
files = {
    "hello.py": f"SYSTEM = {os.environ['VARIANT_SYSTEM']!r}\n",
    f"{info}/METADATA": f"Metadata-Version: 2.1\nName: hello\nVersion: {version}\n",
    f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: ci\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
}
files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"])
Path("dist").mkdir(exist_ok=True)
with zipfile.ZipFile(f"dist/hello-{version}-py3-none-any.whl", "w") as wheel:
    for name, text in files.items():
        wheel.writestr(name, text)
PYTHON
printf '#!/usr/bin/env bash\nexec python ci/wheel.py\n' >ci/build.sh
printf 'import hello\nassert hello.SYSTEM == "%s"\nprint("\\u2713")\n' "$platform" >ci/smoke.py
chmod +x ci/build.sh
printf 'build-output/\ntest-output/\ndist/\n' >.gitignore
cat >.github/ci-matrix.yaml <<YAML
version: 1
owner: my-org
backend: command
branches: {main: {versions: {hello: 1.0.0}}}
packages:
  hello:
    disk: 1
    memory: 1
    jobs: 1
    command:
      build: ci/build.sh
      files: [dist/*.whl]
      install: pip install hello==@version@
      publish: cp "\$VARIANT_FILES"/*.whl "\$INDEX"
    smoke: {python: ci/smoke.py}
matrix: {rows: [{platform: $platform, accelerator: cpu, python: "$python"}]}
publish: {environment: release, on-shared-machines: true}
runners: {machine: {hosted: $machine, stages: [build, cpu-test, publish]}}
YAML
git add --all
git commit --quiet --message 'A wheel'
git update-index --chmod=+x ci/build.sh

export INDEX=$folder.index PUBLISH_TOKEN=none
ci-compile
git add --all
git commit --quiet --message 'Compiled'
git init --quiet --bare "$folder.git"
git remote add origin "$folder.git"
git push --quiet --set-upstream origin main
ci-runner detect
ci-runner doctor --for build "$name"
ci-runner build "$name" --branch main
ci-runner smoke "$name" --stage cpu-test --manifest build-output/manifest.json
ci-runner publish "$name" --branch main --commit "$(git rev-parse HEAD)" --manifest build-output/manifest.json
ls "$INDEX"/hello-1.0.0-py3-none-any.whl
