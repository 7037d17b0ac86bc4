# offloaded ZSTD LIBRARY: prints the target of each entry of each bundle of code in LIBRARY. A bundle begins with them,
# and a compressed one is a frame of zstd.
offloaded() {
  local -x LC_ALL=C
  local entry='hip(v4)?-amdgcn-amd-amdhsa-[a-z]*-gfx[0-9a-z:+-]+' at
  grep -aoE "$entry" "$2"
  grep -aboF $'\x28\xb5\x2f\xfd' "$2" | while IFS=: read -r at _; do
    tail -c "+$((at + 1))" "$2" | "$1" -dcq 2>/dev/null | head -c 65536 | grep -aoE "$entry"
  done
}
export -f offloaded
