#!/usr/bin/env bash
# Facts about two jobs of one concurrency group that wait for an approval: whether somebody is asked, and about how many.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=ask.sh
. "$(dirname "$0")/ask.sh"

code=$(ask "$scratch/rules" "environments/canary-approval")
rules='[.protection_rules[]? | select(.type == "required_reviewers")] | length > 0'
if [ "$code" = 200 ] && jq --exit-status "$rules" "$scratch/rules" >/dev/null; then
  echo "reviewers=yes"
  sleep "${CANARY_SECONDS:-60}"
  code=$(ask "$scratch/jobs" "actions/runs/$GITHUB_RUN_ID/attempts/$GITHUB_RUN_ATTEMPT/jobs?per_page=100")
  legs='[.jobs[] | select(.name | startswith("approved ")) | select(.status == "waiting")] | length'
  [ "$code" != 200 ] || echo "waiting=$(jq "$legs" "$scratch/jobs")"
else
  echo "reviewers=no"
fi
