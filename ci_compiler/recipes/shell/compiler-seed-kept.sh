# compiler_seed_kept: the output is what ccache kept, in an order and with times that do not depend on the build. Its bytes
# are shifted by one, so that no store path in it is found and the output has no references.
compiler_seed_kept() {
  if ! grep -q '^cache_miss$' "$CCACHE_STATSLOG"; then
    echo "ci-compiler: the compiler seed is empty: this build does not compile through CMake" >&2
    exit 1
  fi
  mkdir "$out"
  tar -c -C "$CCACHE_DIR" --sort=name --mtime=@1 --owner=0 --group=0 --numeric-owner --exclude=stats \
    --exclude=CACHEDIR.TAG . | LC_ALL=C tr '\000-\377' '\001-\377\000' >"$out/cache"
  exit 0
}
