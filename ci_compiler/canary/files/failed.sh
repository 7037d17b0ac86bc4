#!/usr/bin/env bash
# Facts about re-runs, from the outcomes of the steps before: `success`, `failure`, or '' for a step that did not run.
set -euo pipefail

if [ "$GITHUB_RUN_ATTEMPT" = 1 ]; then
  echo "kind=first"
  echo "over=$OVER"
else
  # A job that did not run again has the outputs of the attempt that it ran in.
  if [ "$STARTED" = "$GITHUB_RUN_ATTEMPT" ]; then echo "kind=all"; else echo "kind=some"; fi
  echo "first=$FIRST"
  echo "by-token=$BY_TOKEN"
  echo "same-name=$SAME_NAME"
  echo "newest=$([ "$(cat newest/canary.txt 2>/dev/null)" = "$GITHUB_RUN_ATTEMPT" ] && echo yes || echo no)"
  echo "output=${OUTPUT:-empty}"
  # Whoever changes the variable before a re-run says so with `Enable debug logging`.
  echo "debug=$([ -n "${RUNNER_DEBUG:-}" ] && echo yes || echo no)"
  echo "variable=$([ "$CANARY_VARIABLE" = "$VARIABLE_THEN" ] && echo old || echo new)"
fi
