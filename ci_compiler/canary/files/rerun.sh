#!/usr/bin/env bash
# Facts about artifacts, from the outcomes of the steps before: `success`, `failure`, or '' for a step that did not run.
set -euo pipefail

echo "odd-name=$ODD_NAME"
if [ "$GITHUB_RUN_ATTEMPT" = 1 ]; then
  echo "attempt=first"
else
  echo "attempt=later"
  # A job that did not run again has the outputs of the attempt that it ran in.
  if [ "$STARTED" = "$GITHUB_RUN_ATTEMPT" ]; then echo "kind=all"; else echo "kind=some"; fi
  echo "first=$FIRST"
  echo "same-name=$SAME_NAME"
fi
