# The phases of nixpkgs' stdenv whose hooks a compiled recipe adds to, in one shell, as there.
set -eu -o pipefail
set +u
cd "$NIX_BUILD_TOP"
getAllOutputNames() { echo "$outputs"; }
[ "${NIX_BUILD_CORES:-0}" -gt 0 ] || NIX_BUILD_CORES=$(nproc)

# pkgs/build-support/setup-hooks/reproducible-builds.sh
seed=${NIX_OUTPATH_USED_AS_RANDOM_SEED:-$out}
seed=${seed##*/}
export NIX_CFLAGS_COMPILE="${NIX_CFLAGS_COMPILE-} -frandom-seed=${seed:0:10}"

eval "${preConfigure-}"
# In place of CMake, which takes the launcher from this variable, and of nvcc, which has none.
for target in $TARGETS; do echo "int runs_on_$target;" >"$target.cpp"; done
echo "#define TARGETS \"$TARGETS\"" >targets.h
eval "${preBuild-}"
for file in "$src"/*.cpp; do
  $CMAKE_CXX_COMPILER_LAUNCHER "$wrapper/bin/c++" $CXXFLAGS -I. -c "$file" -o "$(basename "$file" .cpp).o"
done
for target in $TARGETS; do "$wrapper/bin/c++" $CXXFLAGS -c "$target.cpp" -o "$target.o"; done
if [ -n "${installPhase-}" ]; then
  eval "$installPhase"
else
  mkdir -p "$out"
  ar rcD "$out/engine.a" *.o
  ${preInstallCheck-true}
fi
eval "${preFixup-}"
