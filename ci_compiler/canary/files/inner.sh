#!/usr/bin/env bash
# Facts from the job of the innermost workflow: its secret, and what its token may do. The write has no effect even where
# it is allowed: no workflow waits for this event.
set -euo pipefail

ask() {
  curl --silent --output /dev/null --write-out '%{http_code}' --max-time 60 \
    --header "Authorization: Bearer $GITHUB_TOKEN" "$@" || true
}

echo "ran=yes"
echo "flag=${FLAG:-empty}"
echo "minutes=${MINUTES:-empty}"
echo "secret=$([ -n "${CANARY_SECRET:-}" ] && echo set || echo empty)"
echo "variable=$([ -n "${CANARY_VARIABLE:-}" ] && echo set || echo empty)"
echo "identity=$([ -n "${ACTIONS_ID_TOKEN_REQUEST_URL:-}" ] && echo granted || echo none)"
if [ -z "${GITHUB_TOKEN:-}" ]; then
  echo "token=none"
  exit 0
fi
echo "token=set"
# The bundle is invalid, so that nothing is attested: the answer differs from that to a token that may not attest.
case $(ask --data '{"bundle": {}}' "$GITHUB_API_URL/repos/$GITHUB_REPOSITORY/attestations") in
  400 | 422) echo "attest=allowed" ;;
  *) echo "attest=refused" ;;
esac
echo "read=$(ask "$GITHUB_API_URL/repos/$GITHUB_REPOSITORY/contents/.github/canary/touch?ref=$GITHUB_SHA")"
echo "write=$(ask --data '{"event_type": "ci-compile-canary"}' "$GITHUB_API_URL/repos/$GITHUB_REPOSITORY/dispatches")"
