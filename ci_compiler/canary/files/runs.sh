#!/usr/bin/env bash
# What GitHub shows of the run after its jobs: jobs.json, annotations.json of the job that lost its runner, and facts about
# the order of the group, the attempt, its approvals, the environment that GitHub created, and downloads by patterns.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=ask.sh
. "$(dirname "$0")/ask.sh"

echo "attempt=$([ "$GITHUB_RUN_ATTEMPT" = 1 ] && echo first || echo later)"
echo "too=$([ "$TOO" = "$GITHUB_RUN_ATTEMPT" ] && echo again || echo copied)"
echo "kept=$([ -n "${ONCE:-}" ] && echo yes || echo no)"
if [ "$(ask "$scratch/reviews" "actions/runs/$GITHUB_RUN_ID/approvals")" = 200 ]; then
  echo "reviews=$(jq '[.[] | select(any(.environments[]; .name == "canary-approval"))] | length' "$scratch/reviews")"
fi
echo "elsewhere=$(environment canary-elsewhere)"
two=canary-$GITHUB_RUN_ATTEMPT
echo "braces=$(yes_if test -e "two/$two-past/past.facts" -a -e "two/$two-observer/observer.facts")"
echo "merged=$(yes_if test -e merged/past.facts -a -e merged/observer.facts)"
echo "one=$(if [ -e one/past.facts ]; then echo flat; elif [ -e "one/$two-past/past.facts" ]; then echo folder; else echo none; fi)"

code=$(ask "$1/jobs.json" "actions/runs/$GITHUB_RUN_ID/attempts/$GITHUB_RUN_ATTEMPT/jobs?per_page=100")
if [ "$code" != 200 ]; then
  rm -f "$1/jobs.json"
  exit 0
fi
order='[.jobs[] | select(.name | startswith("order ")) | select(.conclusion == "success")] | sort_by(.started_at) | map(.name[6:]) | join("")'
echo "order=$(jq --raw-output "$order" "$1/jobs.json")"
lost=$(jq '.jobs[] | select(.name == "lost" and .conclusion != "skipped") | .id' "$1/jobs.json")
if [ -n "$lost" ]; then
  code=$(ask "$1/annotations.json" "check-runs/$lost/annotations?per_page=100")
  [ "$code" = 200 ] || rm -f "$1/annotations.json"
fi
