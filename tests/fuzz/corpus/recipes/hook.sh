export CXXFLAGS="$CXXFLAGS -mavx2" A='b c' \
  D+=e; if [ -n "$A" ]; then declare -x B=${A:-c} C="${B+d}"; fi
cat <<-'EOF' > x
	export NO=1
	EOF
appendToVar CFLAGS "-a $(echo b) `c`" && prependToVar CFLAGS -b; local X=$((1+2)) 2>&1 | y
