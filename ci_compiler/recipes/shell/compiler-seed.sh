# compiler_seed CCACHE [SEED]: what CMake compiles as C and C++ goes through ccache, which finds what SEED holds and adds
# nothing. Without SEED, it starts empty and keeps everything.
compiler_seed() {
  local folder=$NIX_BUILD_TOP/compiler-seed
  unset "${!CCACHE_@}"
  export CCACHE_DIR=$folder/cache CCACHE_CONFIGPATH=/dev/null CCACHE_MAXSIZE=0
  export CCACHE_TEMPDIR=$folder/tmp CCACHE_STATSLOG=$folder/results
  mkdir -p "$CCACHE_DIR" "$CCACHE_TEMPDIR"
  : >"$CCACHE_STATSLOG"
  if [ -n "${2-}" ]; then
    LC_ALL=C tr '\001-\377\000' '\000-\377' <"$2/cache" | tar -x -C "$CCACHE_DIR"
    export CCACHE_READONLY=1
  fi
  # Variables of nixpkgs' compiler wrapper change its result, so they are part of the key, but for a few that do not
  # reach the compiler. A compiler in the store is what its path says: all times there are 1, and sizes may be equal.
  sed "1s|^|#!$BASH\n|; s|@ccache@|$1|" >"$folder/launch" <<'END'
compiler=$(type -P -- "$1")
case $compiler in
  "${NIX_STORE-}"/*) export CCACHE_COMPILERCHECK=string:$compiler ;;
  *) export CCACHE_COMPILERCHECK=content ;;
esac
for name in "${!NIX_@}"; do
  case $name in
    NIX_ATTRS_* | NIX_BUILD_CORES | NIX_BUILD_TOP | NIX_LDFLAGS* | NIX_LOG_FD | NIX_OUTPATH_USED_AS_RANDOM_SEED) ;;
    *) CCACHE_NAMESPACE+="$name=${!name};" ;;
  esac
done
export CCACHE_NAMESPACE
exec @ccache@ "$@"
END
  chmod +x "$folder/launch"
  export CMAKE_C_COMPILER_LAUNCHER=$folder/launch CMAKE_CXX_COMPILER_LAUNCHER=$folder/launch
}
# compiler_seed_found: prints how many compilations found their result in the seed.
compiler_seed_found() {
  awk '
    /^(direct|preprocessed)_cache_hit$/ { found++ }
    /^cache_miss$/ { missing++ }
    END { print "ci-compiler: the compiler seed had " found + 0 " of " found + missing " host objects" }
  ' "$CCACHE_STATSLOG"
}
