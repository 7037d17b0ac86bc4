#!/usr/bin/env bash
# Facts about an event: its file, commit and base, who started it, and what the token of its job may do. The checkout is
# at the event's commit, with all history. It writes a comment on a pull request, edits it, and removes it again.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=ask.sh
. "$(dirname "$0")/ask.sh"

is() { [ "$1" = "$2" ]; }
at_tip() { [ "$(git rev-parse HEAD)" = "$(git rev-parse "origin/$DEFAULT_BRANCH")" ]; }

echo "name=$GITHUB_EVENT_NAME"
file="$GITHUB_REPOSITORY/.github/workflows/canary-events.yml"
echo "default-file=$(yes_if is "${GITHUB_WORKFLOW_REF:-}" "$file@refs/heads/$DEFAULT_BRANCH")"
echo "default-tip=$(yes_if at_tip)"
echo "fork=${FORK:-empty}"
case $GITHUB_EVENT_NAME in
  schedule)
    # 12:17 in the zone of the schedule is 22:17 UTC; GitHub may start it hours late.
    case $(date -u +%H) in
      22 | 23 | 00 | 01 | 02 | 03 | 04 | 05) echo "zone=own" ;;
      *) echo "zone=other" ;;
    esac
    ;;
  pull_request | merge_group)
    case $GITHUB_REF in
      refs/pull/"${NUMBER:-none}"/merge) echo "ref=merge" ;;
      refs/heads/gh-readonly-queue/*) echo "ref=queue" ;;
      *) echo "ref=other" ;;
    esac
    read -r -a parents <<<"$(git log -1 --format=%P)"
    head=no onto=''
    for parent in "${parents[@]}"; do
      if is "$parent" "${HEAD_COMMIT:-none}"; then head=yes; else onto=${onto:-$parent}; fi
    done
    echo "parents=${#parents[@]}"
    echo "head=$head"
    echo "onto=$(yes_if git merge-base --is-ancestor "$onto" "origin/${BASE_REF#refs/heads/}")"
    echo "base=$(yes_if is "$onto" "${BASE:-none}")"
    echo "from=$(if [ -z "${FROM:-}" ]; then echo queue; elif [ "$FROM" = "$GITHUB_REPOSITORY" ]; then echo own; else echo fork; fi)"
    ;;
  push) echo "branch=$([ "$GITHUB_REF_NAME" = canary-pushed ] && echo listed || echo other)" ;;
  workflow_dispatch)
    echo "by=$([ "$GITHUB_ACTOR" = 'github-actions[bot]' ] && echo token || echo person)"
    echo "word=${WORD:-empty}"
    echo "flag=${FLAG:-empty}"
    echo "sent=${SENT:-empty}"
    ;;
esac
if [ -z "${GITHUB_TOKEN:-}" ] || [ -z "${NUMBER:-}" ]; then exit 0; fi
echo "commented=$(ask "$scratch/comment" "issues/$NUMBER/comments" --data '{"body": "canary"}')"
comment=$(jq .id "$scratch/comment" 2>/dev/null || true)
echo "edited=$(ask /dev/null "issues/comments/$comment" --request PATCH --data '{"body": "canary, edited"}')"
echo "listed=$(ask /dev/null "issues/$NUMBER/comments")"
echo "removed=$(ask /dev/null "issues/comments/$comment" --request DELETE)"
