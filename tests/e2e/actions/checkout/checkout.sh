#!/usr/bin/env bash
# What actions/checkout does with git: fetches with or without history, and checks out a branch with its upstream where
# it is given one, a commit without a branch otherwise. A pull request's own ref is the merge commit of the event.
set -euo pipefail

commit='' ref=$REF
if [[ -z $ref ]]; then
  ref=$GITHUB_REF commit=$GITHUB_SHA
elif [[ $ref =~ ^[0-9a-f]{40}$ ]]; then
  commit=$ref ref=''
fi
case $ref in
  '') start=$commit kept='' ;;
  refs/pull/*) kept=refs/remotes/pull/${ref#refs/pull/} start=refs/remotes/pull/${ref#refs/pull/} ;;
  *) ref=${ref#refs/heads/} kept=refs/remotes/origin/$ref start=refs/remotes/origin/$ref ;;
esac

find . -mindepth 1 -delete
git init --quiet --initial-branch=unborn .
git remote add origin "$E2E_ORIGIN"
wanted="+${commit:-refs/heads/$ref}${kept:+:$kept}"
if [[ $DEPTH == 0 ]]; then
  git fetch --quiet --prune origin '+refs/heads/*:refs/remotes/origin/*' '+refs/tags/*:refs/tags/*'
  if [[ -n $commit ]]; then git fetch --quiet origin "$wanted"; fi
else
  git fetch --quiet --no-tags --depth="$DEPTH" origin "$wanted"
fi
if [[ $start == refs/remotes/origin/* ]]; then
  git checkout --quiet --force -B "$ref" "$start"
else
  git checkout --quiet --force --detach "$start"
fi
if [[ $PERSIST == true ]]; then
  git config --local "http.https://github.com/.extraheader" "AUTHORIZATION: basic of-the-tests"
fi
echo "checked out $(git rev-parse HEAD) depth=$DEPTH credentials=$PERSIST"
