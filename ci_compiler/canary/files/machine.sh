#!/usr/bin/env bash
# Facts about the chosen machine: its programs' versions, the runner's hook, Nix' sandbox and daemon, the cache, Flox.
# Nothing here names the machine, its owner or the repository. A probe that fails is a fact, and the next one follows.
set -uo pipefail

out=${1:-facts}
mkdir -p "$out"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

outcome() { if "$@" >"$scratch/log" 2>&1; then echo success; else echo failure && tail -n 20 "$scratch/log" >&2; fi; }
number() { grep -Eo '[0-9]+(\.[0-9]+)+' | head -n 1; }

echo "ran=yes"
echo "kind=$KIND"
echo "hook=$([ -n "${ACTIONS_RUNNER_HOOK_JOB_STARTED:-}" ] && echo set || echo none)"
# The version of the runner: among the processes above this one is its Runner.Worker, beside which is Runner.Listener.
pid=$PPID
while [ "${pid:-0}" -gt 1 ]; do
  case $(readlink "/proc/$pid/exe") in
    */Runner.Worker) echo "runner-version=$("$(dirname "$(readlink "/proc/$pid/exe")")/Runner.Listener" --version | number)" ;;
  esac
  pid=$(sed -n 's/^PPid:[[:space:]]*//p' "/proc/$pid/status")
done
# shellcheck source=/dev/null
if [ -r /etc/os-release ]; then echo "os-version=$(. /etc/os-release && echo "$ID-${VERSION_ID:-rolling}")"; fi

# --- Nix ------------------------------------------------------------------------------------------------------------
nix_command() { nix --extra-experimental-features nix-command "$@"; }

# The sandbox has no /etc/os-release, which each Linux has. The name is new in each run, so that nothing is reused.
sandbox_trial() {
  local name=$1
  shift
  # shellcheck disable=SC2016
  nix-build --no-out-link "$@" --expr '
    derivation {
      name = "ci-compile-canary-'"$name-${GITHUB_RUN_ID:-0}-${GITHUB_RUN_ATTEMPT:-1}"'";
      system = builtins.currentSystem;
      builder = "/bin/sh";
      allowSubstitutes = false;
      args = [ "-c" "if [ -e /etc/os-release ]; then echo no > $out; else echo yes > $out; fi" ];
    }' 2>"$scratch/log"
}

if command -v nix-build >/dev/null; then
  echo "nix=yes"
  echo "nix-version=$(nix-build --version | number)"
  if built=$(sandbox_trial plain); then
    echo "sandboxed=$(cat "$built")"
  else
    echo "sandboxed=failure"
    tail -n 20 "$scratch/log" >&2
  fi
  echo "store-writable=$([ -w "${NIX_STORE_DIR:-/nix/store}" ] && echo yes || echo no)"
  # The daemon ignores this option of a user whom it does not trust.
  overridden=$(sandbox_trial overridden --option sandbox false)
  echo "trusted=$([ "$(cat "$overridden" 2>/dev/null)" = yes ] && echo no || echo yes)"
  if [ -n "${CACHE:-}" ] && [ -n "${built:-}" ]; then
    echo "cache=set"
    echo "cache-push=$(outcome nix_command copy --to "$CACHE" "$built")"
    echo "$built" >"$out/closure"
  fi
  # One recipe per branch, with the nixpkgs that the spec pins; the log has each derivation, or what Nix says.
  if [ -f .github/ci-matrix.yaml ]; then
    ci-compile evaluate --pins >"$scratch/pins" 2>&1
    status=$?
    if ! grep -q 'compiles no recipe' "$scratch/pins"; then
      echo "recipes=compiled"
      echo "pins=$([ $status = 0 ] && echo success || echo failure)"
    fi
    cat "$scratch/pins" >&2
  fi
else
  echo "nix=no"
fi

# --- Flox -----------------------------------------------------------------------------------------------------------
# `flox publish` has no rehearsal of its own. Its own checks are made here first: a branch with an upstream that has the
# commit, a clean tree, a token that FloxHub accepts.
flox_rehearsal() {
  git diff --quiet && [ "$(git rev-parse HEAD)" = "$(git rev-parse '@{upstream}')" ] && flox auth status
}

if command -v flox >/dev/null; then
  echo "flox=yes"
  echo "flox-version=$(flox --version | number)"
  echo "flox-build=$(outcome flox build --dir .github/canary/flox canary)"
  if [ -n "${FLOX_FLOXHUB_TOKEN:-}" ]; then
    rehearsal=$(outcome flox_rehearsal)
    echo "flox-rehearsal=$rehearsal"
    echo "flox-asked=${FLOX_PUBLISH:-rehearse}"
    if [ "$rehearsal ${FLOX_PUBLISH:-}" = "success publish" ]; then
      echo "flox-publish=$(outcome flox publish --dir .github/canary/flox canary </dev/null)"
    fi
  fi
else
  echo "flox=no"
fi
