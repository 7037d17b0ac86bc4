#!/usr/bin/env bash
# Facts from before the jobs: the environment `canary-elsewhere`, commits that a person pushed so that no run starts, and
# what a token with `actions: read` and `contents: read` may read of the repository.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=ask.sh
. "$(dirname "$0")/ask.sh"

[ -n "${GITHUB_TOKEN:-}" ] || exit 0
echo "token=set"
echo "elsewhere=$(environment canary-elsewhere)"

# The number of runs of `canary` that the push of a commit started.
runs_of() {
  [ "$(ask "$scratch/runs" "actions/workflows/canary.yml/runs?event=push&head_sha=$1")" = 200 ] || return 0
  jq .total_count "$scratch/runs"
}

# The newest commit with some words in its message that changed the file of the path filter.
pushed() { git log -1 --format=%H --fixed-strings --grep "$1" -- .github/canary/touch; }

skipped=$(pushed '[skip ci]')
if [ -n "$skipped" ]; then
  echo "skipped=pushed"
  echo "skipped-runs=$(runs_of "$skipped")"
fi
many=$(pushed 'canary: over 300 files')
if [ -n "$many" ] && [ "$(git diff-tree --no-commit-id --name-only -r "$many" | wc -l)" -gt 300 ]; then
  echo "many=pushed"
  echo "many-runs=$(runs_of "$many")"
fi

reads=all
may_read() { [ "$1" = 200 ] || reads=$1; }
may_read "$(ask /dev/null "actions/runs")"
may_read "$(ask /dev/null "actions/runs/$GITHUB_RUN_ID/artifacts")"
may_read "$(ask /dev/null "actions/workflows")"
may_read "$(ask /dev/null "environments")"
may_read "$(ask /dev/null "branches")"
may_read "$(ask /dev/null "issues")"
may_read "$(ask /dev/null "pulls")"
may_read "$(ask /dev/null "branches/$DEFAULT_BRANCH")"
may_read "$(ask /dev/null "rules/branches/$DEFAULT_BRANCH")"
echo "reads=$reads"
