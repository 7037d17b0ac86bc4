#!/usr/bin/env bash
# Runs before each job (ACTIONS_RUNNER_HOOK_JOB_STARTED); if it fails, the job fails. It refuses code from forks, frees
# space in the Nix store, and refuses the job if there is still too little. The guard in the workflow is the boundary;
# this is the second line of defence, since the job's actions have been downloaded by now. Assumes `job-started-hook`.
set -euo pipefail

refuse() {
  echo "::error::$*"
  echo "job-started: $*" >&2
  exit 1
}

# --- Forks: whose code is it? An unreadable event is refused. --------------------------------------------------------
event=${GITHUB_EVENT_PATH:-}
[[ -n $event && -r $event ]] || refuse "no event to read at GITHUB_EVENT_PATH, so nobody knows whose code this is"
strangers=$(jq --raw-output '
  .repository.full_name as $own
  | if ($own | type) != "string" then error("no repository") else . end
  | [ (.pull_request // empty | .head.repo), (.workflow_run // empty | .head_repository) ]
  | map(if . == null then "a repository that is gone" else .full_name end)
  | map(select(ascii_downcase != ($own | ascii_downcase)))
  | join(", ")
' "$event") || refuse "the event at GITHUB_EVENT_PATH cannot be read, so nobody knows whose code this is"
[[ -z $strangers ]] || refuse "this job runs code of $strangers; forks get no self-hosted machine"

# --- Space: collect garbage now, while nothing builds; never during a build. -----------------------------------------
bytes_free() { df --block-size=1 --output=avail "$1" | tail -n 1; }

require_space() {
  local folder=$1 needed=$2 left
  left=$(bytes_free "$folder")
  ((left >= needed)) || refuse "$folder has $((left / 1000000)) MB free, and $((needed / 1000000)) are needed"
}

needed=$((CI_RUNNER_FREE_GB * 1000000000))
missing=$((needed - $(bytes_free /nix/store)))
if ((missing > 0)) && command -v nix-store >/dev/null; then
  echo "job-started: /nix/store lacks $((missing / 1000000)) MB; collecting garbage"
  nix-store --gc --max-freed "$missing" >/dev/null || echo "job-started: the garbage was not collected" >&2
fi
require_space /nix/store "$needed"
# Checkouts, manifests and logs are small compared with builds; the runner itself warns at 100 MB.
mkdir -p "$RUNNER_HOME/_work"
require_space "$RUNNER_HOME/_work" 1000000000
