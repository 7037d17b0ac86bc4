{ runCommand }:
runCommand "ci-compile-canary-1.0.0" { } "echo canary > $out"
