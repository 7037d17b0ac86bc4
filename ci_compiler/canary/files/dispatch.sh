#!/usr/bin/env bash
# Facts about runs that are started with the token of a workflow: a new one of `canary events`, and the failed jobs of an
# earlier run of `canary runs` that has one attempt.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=ask.sh
. "$(dirname "$0")/ask.sh"

[ -n "${GITHUB_TOKEN:-}" ] || exit 0
echo "token=set"
since=$(date -u -d '1 minute ago' +%Y-%m-%dT%H:%M:%SZ)
data="{\"ref\": \"$GITHUB_REF_NAME\", \"inputs\": {\"word\": \"given\", \"flag\": \"true\"}}"
code=$(ask "$scratch/answer" "actions/workflows/canary-events.yml/dispatches" --data "$data")
# GitHub Enterprise Server answers without the run.
case $code in
  200 | 204) echo "asked=accepted" ;;
  *) echo "asked=$code" ;;
esac
started=no
for _ in 1 2 3 4 5 6; do
  sleep "${CANARY_SECONDS:-10}"
  code=$(ask "$scratch/runs" "actions/workflows/canary-events.yml/runs?event=workflow_dispatch&created=%3E%3D$since")
  if [ "$code" = 200 ] && [ "$(jq .total_count "$scratch/runs")" -gt 0 ]; then started=yes && break; fi
done
echo "started=$started"

earlier=none
if [ "$(ask "$scratch/runs" "actions/workflows/canary-runs.yml/runs?status=failure")" = 200 ]; then
  earlier=$(jq '[.workflow_runs[] | select(.run_attempt == 1)][0].id // "none"' --raw-output "$scratch/runs")
fi
if [ "$earlier" = none ]; then
  echo "earlier=no"
else
  echo "earlier=yes"
  echo "rerun=$(ask /dev/null "actions/runs/$earlier/rerun-failed-jobs" --data '{}')"
fi
