#!/bin/bash
# Stands in for GitHub's runner: a listener below it, which an interrupt reaches, as RUNNER_MANUALLY_TRAP_SIG has it.
set -m
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 1
trap 'kill -INT -- "-$listener"; again=yes' INT TERM
bin/Runner.Listener &
listener=$!
again=yes
while [[ -n $again ]]; do
  again=
  wait "$listener"
  status=$?
done
exit "$status"
