# The phases of nixpkgs' stdenv whose hooks a compiled recipe adds to, in one shell, as there.
set -eu -o pipefail
set +u
cp -r "$src" source
chmod -R u+w source
cd source
getAllOutputNames() { echo "$outputs"; }
outputs=${outputs:-out}
# nixpkgs' setup script does this too: it is the hook's input.
[ "${NIX_BUILD_CORES:-0}" -gt 0 ] || NIX_BUILD_CORES=$(nproc)

eval "${postPatch-}"
eval "${preConfigure-}"
if [ -z "${dontUseCmakeConfigure-}" ]; then
  mkdir build
  cd build
  cmake .. $cmakeFlags
fi
eval "${preBuild-}"
ninja -C "$([ -e build.ninja ] && echo . || echo build)" -j "$NIX_BUILD_CORES"
mkdir -p "$out/lib"
cp "$(find . -name 'libtorch_cuda.so')" "$out/lib"
for file in build.ninja rules.ninja CMakeCache.txt; do cp "$(find . -name shaders-gen -prune -o -name $file -print -quit)" "$out"; done
[ ! -e shaders-gen/CMakeCache.txt ] || cp shaders-gen/CMakeCache.txt "$out/shaders-gen.txt"
eval "${preFixup-}"
