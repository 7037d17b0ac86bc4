#!/usr/bin/env bash
# Facts about just-in-time runners, on a hosted machine: registers one that no job asks for, removes it, and starts a
# runner of a version that GitHub no longer serves. The answers, which have the runners' keys, are never shown. Nothing
# is tried with a token that a job of any branch could take, because the environment is open to all of them.
set -euo pipefail

if [ -z "${CANARY_ADMIN_TOKEN:-}" ]; then
  echo "token=none"
  exit 0
fi
echo "token=set"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
runners=$GITHUB_API_URL/repos/$GITHUB_REPOSITORY/actions/runners

curl --silent --output "$scratch/environment" --max-time 60 --header "Authorization: Bearer $GITHUB_TOKEN" \
  "$GITHUB_API_URL/repos/$GITHUB_REPOSITORY/environments/canary" >/dev/null || true
if ! jq --exit-status .deployment_branch_policy "$scratch/environment" >/dev/null; then
  echo "bound=no"
  exit 0
fi
echo "bound=yes"

ask() {
  printf 'header = "Authorization: Bearer %s"\n' "$CANARY_ADMIN_TOKEN" |
    curl --silent --config - --output "$scratch/answer" --write-out '%{http_code}' --max-time 60 "$@" || true
}

register() {
  local name="ci-compile-canary-$GITHUB_RUN_ID-$GITHUB_RUN_ATTEMPT-$1"
  ask --data "{\"name\": \"$name\", \"runner_group_id\": 1, \"labels\": [\"$name\"]}" "$runners/generate-jitconfig"
}

# The settings that no token of a workflow may read.
settings=all
may_read() { [ "$1" = 200 ] || settings=$1; }
may_read "$(ask "$GITHUB_API_URL/repos/$GITHUB_REPOSITORY/actions/permissions")"
may_read "$(ask "$GITHUB_API_URL/repos/$GITHUB_REPOSITORY/actions/permissions/workflow")"
may_read "$(ask "$GITHUB_API_URL/repos/$GITHUB_REPOSITORY/actions/permissions/artifact-and-log-retention")"
echo "settings=$settings"

made=$(register removed)
echo "made=$made"
[ "$made" = 201 ] || exit 0
runner=$(jq .runner.id "$scratch/answer")
echo "removed=$(ask --request DELETE "$runners/$runner")"
echo "gone=$(ask "$runners/$runner")"

# The archive of the old runner comes from its release. It gets a registration of its own, which is removed afterwards.
[ "$(register old)" = 201 ] || exit 0
runner=$(jq .runner.id "$scratch/answer")
ACTIONS_RUNNER_INPUT_JITCONFIG=$(jq --raw-output .encoded_jit_config "$scratch/answer")
export ACTIONS_RUNNER_INPUT_JITCONFIG ACTIONS_RUNNER_RETURN_VERSION_DEPRECATED_EXIT_CODE=1
archive=https://github.com/actions/runner/releases/download/v$OLD_RUNNER/actions-runner-linux-x64-$OLD_RUNNER.tar.gz
mkdir "$scratch/runner"
if curl --silent --fail --location --max-time 300 "$archive" | tar --extract --gzip --directory "$scratch/runner"; then
  echo "old=started"
  status=0
  timeout 120 "$scratch/runner/run.sh" >/dev/null 2>&1 || status=$?
  echo "exit=$status"
fi
ask --request DELETE "$runners/$runner" >/dev/null
