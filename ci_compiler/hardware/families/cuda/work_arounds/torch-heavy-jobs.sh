memory=$(sed -n 's/^MemAvailable: *\([0-9]*\) kB$/\1/p' /proc/meminfo)
HEAVY_JOBS=$(((memory / 1048576 - NIX_BUILD_CORES) / 4))
export HEAVY_JOBS=$((HEAVY_JOBS < 1 ? 1 : HEAVY_JOBS < NIX_BUILD_CORES ? HEAVY_JOBS : NIX_BUILD_CORES))
