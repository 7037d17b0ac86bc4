# Compiled by ci-compile from torch.yaml (bundled). Do not edit: change the spec, then run `ci-compile recipes`.
# Functions of the shell, which phases of builds define.

''
  # built_for LIMIT NUMBER...: reads lines that name architectures by their numbers, and ends the build unless each NUMBER
  # is among them, and any other in at most LIMIT times as many lines as the rarest of those.
  built_for() {
    awk -v limit="$1" -v wanted="''${*:2}" '
      {
        split("", seen)
        while (match($0, /sm_[0-9]+/)) {
          sm = substr($0, RSTART + 3, RLENGTH - 3)
          $0 = substr($0, RSTART + RLENGTH)
          if (!seen[sm]++) lines[sm]++
        }
      }
      END {
        size = split(wanted, list, " ")
        for (i = 1; i <= size; i++) {
          is_wanted[list[i]] = 1
          if (i == 1 || lines[list[i]] < least) least = lines[list[i]] + 0
          if (!lines[list[i]]) problem = problem " nothing is built for sm_" list[i] ";"
        }
        for (sm in lines)
          if (!is_wanted[sm] && lines[sm] > limit * least) problem = problem " " lines[sm] " are built for sm_" sm ";"
        if (problem) {
          print "ci-compiler: the recipe declares sm_" wanted ":" problem " the declaration did not arrive" > "/dev/stderr"
          exit 1
        }
      }'
  }''
