# Builds a Python package of one module, by the phases that its recipe adds to. The attributes are the environment.
PATH=/usr/bin:/bin

CXXFLAGS='' CFLAGS='' NVCC_APPEND_FLAGS='' HIPCC_COMPILE_FLAGS_APPEND='' CMAKE_CXX_FLAGS=''
eval "${preConfigure:-}"
[ -n "$standin" ] || eval "${preBuild:-}" # PyTorch's reads what CMake and Ninja wrote; a stand-in has neither

site=$out/lib/python$pythonVersion/site-packages
mkdir -p "$site/$module" "$site/$module-$version.dist-info" "$out/nix-support"
{
  for need in $imports; do echo "import $need"; done
  echo "__version__ = '$version'"
  echo "flags = '$CXXFLAGS'.split()"
  echo "cuda = '$cuda'"
  echo "architectures = '$architectures'.split()"
} >"$site/$module/__init__.py"
if [ -n "$standin" ]; then
  cp "$standin"/*.py "$site/$module/"
fi
if [ "$module" = torch ]; then # what it says of itself
  arch=$(echo "$architectures" | tr -d .)
  gpu="\"cuda\": \"$cuda\", \"architectures\": [\"sm_$arch\"], \"gpus\": [[\"NVIDIA H100 80GB HBM3\", [9, 0]]]"
  echo "{\"version\": \"$version\"${cuda:+, $gpu, \"cudnn\": 91002, \"operators\": 12080\}}" >"$site/behaviour.json"
  [ -n "$cuda" ] || echo "{\"version\": \"$version\"}" >"$site/behaviour.json"
  if [ -n "$hip" ]; then
    gpu="\"gpus\": [[\"AMD Instinct MI300X\", \"$architectures:sramecc+:xnack-\"]]"
    echo "{\"version\": \"$version\", \"hip\": \"$hip\", \"architectures\": [\"$architectures\"], $gpu, \"cudnn\": 3004000}" \
      >"$site/behaviour.json"
  fi
fi
printf 'Metadata-Version: 2.1\nName: %s\nVersion: %s\n' "$module" "$version" >"$site/$module-$version.dist-info/METADATA"
echo "$propagated" >"$out/nix-support/propagated-build-inputs"
echo "built $pname with $CXXFLAGS"
