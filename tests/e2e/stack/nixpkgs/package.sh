# Builds a Python package of one module, by the phases that its recipe adds to. The attributes are the environment.
PATH=/usr/bin:/bin

CXXFLAGS='' CFLAGS='' NVCC_APPEND_FLAGS=''
eval "${preConfigure:-}"
eval "${preBuild:-}"

site=$out/lib/python$pythonVersion/site-packages
mkdir -p "$site/$module" "$site/$module-$version.dist-info" "$out/nix-support"
{
  for need in $imports; do echo "import $need"; done
  echo "__version__ = '$version'"
  echo "flags = '$CXXFLAGS'.split()"
  echo "cuda = '$cuda'"
  echo "architectures = '$architectures'.split()"
} >"$site/$module/__init__.py"
printf 'Metadata-Version: 2.1\nName: %s\nVersion: %s\n' "$module" "$version" >"$site/$module-$version.dist-info/METADATA"
echo "$propagated" >"$out/nix-support/propagated-build-inputs"
echo "built $pname with $CXXFLAGS"
