#!/usr/bin/env bash
# For the other scripts: `ask FILE PATH [OPTION…]` puts the answer of GitHub's API into a file, and prints its code.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

ask() {
  local file=$1 path=$2
  shift 2
  curl --silent --output "$file" --write-out '%{http_code}' --max-time 60 \
    --header "Authorization: Bearer $GITHUB_TOKEN" "$@" "$GITHUB_API_URL/repos/$GITHUB_REPOSITORY/$path" || true
}

yes_if() { if "$@" >/dev/null 2>&1; then echo yes; else echo no; fi; }

# What GitHub has of an environment: `absent`, `open` to every branch, or `bound` to some; else the code of its answer.
environment() {
  local code
  code=$(ask "$scratch/environment" "environments/$1")
  case $code in
    200) if jq --exit-status .deployment_branch_policy "$scratch/environment" >/dev/null; then echo bound; else echo open; fi ;;
    404) echo absent ;;
    *) echo "$code" ;;
  esac
}
