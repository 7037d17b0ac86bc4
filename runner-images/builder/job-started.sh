#!/bin/bash -p
# Runs before each job (ACTIONS_RUNNER_HOOK_JOB_STARTED); if it fails, the job fails. It refuses code from forks, and a
# job for which there is too little space. The settings on GitHub are the boundary; this is the second line of defence,
# since the job's actions have been downloaded by now. Every program comes from the image, never from a job.
# Assumes `job-started-hook`.
set -euo pipefail
PATH=/usr/local/bin:/usr/bin:/bin
python=/opt/ci-compiler/bin/python

refuse() {
  echo "::error::$*"
  echo "job-started: $*" >&2
  exit 1
}

"$python" -I -m ci_compiler.runner.refuse_forks

# The controller collected garbage before the job, if that was needed.
bytes_free() { df --block-size=1 --output=avail "$1" | tail -n 1; }

require_space() {
  local folder=$1 needed=$2 left
  left=$(bytes_free "$folder")
  ((left >= needed)) || refuse "$folder has $((left / 1000000)) MB free, and $((needed / 1000000)) are needed"
}

require_space /nix/store "$((CI_RUNNER_FREE_GB * 1000000000))"
# Checkouts, manifests and logs are small compared with builds; the runner itself warns at 100 MB.
mkdir -p "$RUNNER_HOME/_work"
require_space "$RUNNER_HOME/_work" 1000000000
