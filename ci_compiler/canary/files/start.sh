#!/usr/bin/env bash
# Facts about the event and its commit. The checkout is at the tip of the branch, with its history.
set -euo pipefail

yes_if() { if "$@"; then echo yes; else echo no; fi; }

at_tip() { [ "$(git rev-parse HEAD)" = "$GITHUB_SHA" ]; }

# Whether the commit before the push is in the history; a forced push can remove it.
known() { [ -z "${BEFORE//0/}" ] || git cat-file -e "$BEFORE^{commit}" 2>/dev/null; }

# Whether the push changed a file that the path filter of the workflow matches. The push of a new branch has no `before`.
touches() {
  if [ -z "${BEFORE//0/}" ]; then
    git ls-files --error-unmatch .github/canary/touch >/dev/null 2>&1
  else
    [ -n "$(git diff --name-only "$BEFORE" "$GITHUB_SHA" -- .github/canary/touch)" ]
  fi
}

echo "event=$GITHUB_EVENT_NAME"
echo "secret=$([ -n "${CANARY_SECRET:-}" ] && echo set || echo empty)"
echo "addressed=$ADDRESSED"
echo "variable=$([ -n "${CANARY_VARIABLE:-}" ] && echo set || echo empty)"
echo "env=$([ -n "${CANARY_ENV:-}" ] && echo set || echo empty)"
case $GITHUB_EVENT_NAME in
  workflow_dispatch) echo "tip=$(yes_if at_tip)" ;;
  push) if known; then echo "touched=$(yes_if touches)"; fi ;;
esac
