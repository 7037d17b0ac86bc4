# built_for LIMIT NUMBER...: reads lines that name architectures by their numbers, and ends the build unless each NUMBER
# is among them, and any other in at most LIMIT times as many lines as the rarest of those.
built_for() {
  awk -v limit="$1" -v wanted="${*:2}" '
    {
      split("", seen)
      while (match($0, /@code@/)) {
        sm = substr($0, RSTART + @skip@, RLENGTH - @skip@)
        $0 = substr($0, RSTART + RLENGTH)
        if (!seen[sm]++) lines[sm]++
      }
    }
    END {
      size = split(wanted, list, " ")
      for (i = 1; i <= size; i++) {
        is_wanted[list[i]] = 1
        if (i == 1 || lines[list[i]] < least) least = lines[list[i]] + 0
        if (!lines[list[i]]) problem = problem " nothing is built for @prefix@" list[i] ";"
      }
      for (sm in lines)
        if (!is_wanted[sm] && lines[sm] > limit * least) problem = problem " " lines[sm] " are built for @prefix@" sm ";"
      if (problem) {
        print "ci-compiler: the recipe declares @prefix@" wanted ":" problem " the declaration did not arrive" > "/dev/stderr"
        exit 1
      }
    }'
}
