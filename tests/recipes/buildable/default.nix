# A nixpkgs of few packages that can be built, with this machine's compilers: `builder.sh` runs the phases of stdenv.
{
  system,
  config ? { },
  overlays ? [ ],
}:
let
  inherit (builtins) concatStringsSep elem foldl' getEnv isFunction listToAttrs map removeAttrs;
  lib = {
    inherit concatStringsSep;
    concatMapStringsSep = separator: function: items: concatStringsSep separator (map function items);
    unique = foldl' (seen: one: if elem one seen then seen else seen ++ [ one ]) [ ];
    getBin = package: package;
    hasPrefix = prefix: text: builtins.substring 0 (builtins.stringLength prefix) text == prefix;
  };
  mkDerivation =
    attrs:
    let
      drv = derivation (
        removeAttrs attrs [ "meta" "passthru" "requiredSystemFeatures" "propagatedBuildInputs" ]
        // {
          inherit system;
          name = "${attrs.pname}-${attrs.version}";
          builder = "/bin/bash";
          args = [ ./builder.sh ];
          src = ./source;
          PATH = getEnv "PATH";
        }
      );
    in
    drv
    // (attrs.passthru or { })
    // {
      dev = drv;
      overrideAttrs = change: mkDerivation (attrs // change attrs);
    };
  overridable =
    function: arguments: function arguments // { override = new: overridable function (arguments // new); };

  # As nixpkgs' torch: CMake gets what setup.py hands on of the environment, and no flags.
  torch =
    { cudaSupport, rocmSupport, gpuTargets ? [ "7.5" "8.0" "9.0" ] }:
    mkDerivation {
      pname = "torch";
      version = "2.8.0";
      dontUseCmakeConfigure = true;
      USE_FBGEMM = "1";
      USE_CUDNN = "1";
      preConfigure = ''
        export TORCH_CUDA_ARCH_LIST="${concatStringsSep ";" (if cudaSupport then gpuTargets else [ ])}"
      '' + (if !rocmSupport then "" else ''
        export PYTORCH_ROCM_ARCH="${concatStringsSep ";" gpuTargets}" CMAKE_CXX_FLAGS="-Irocm"
      '');
      preBuild = ''
        export MAX_JOBS=$NIX_BUILD_CORES
        declare -a options
        for name in $(compgen -e | grep -E '^(BUILD|USE|CMAKE)_'); do options+=("-D$name=''${!name}"); done
        cmake -S . -B build -G Ninja "''${options[@]}"
        cd build; cmake --build . --target all -- -n >/dev/null; cd ..
      '';
    };
  torchvision =
    { torch }:
    mkDerivation {
      pname = "torchvision";
      version = "0.23.0";
      inherit torch;
      dontUseCmakeConfigure = true;
      preBuild = "cmake -S . -B build -G Ninja";
    };
  final = foldl' (below: overlay: below // overlay final below) {
    inherit lib;
    pythonPackagesExtensions = [ ];
    rocmPackages.clr.version = "6.4.3";
    zstd = ./tools;
    cudaPackages.cuda_cuobjdump = ./tools;
    cudaPackages_12_8.cuda_cuobjdump = ./tools;
    mini = overridable (_: mkDerivation { pname = "mini"; version = "1.0"; cmakeFlags = [ "-GNinja" ]; }) { };
    python313Packages = {
      torch = overridable torch {
        cudaSupport = config.cudaSupport or false;
        rocmSupport = config.rocmSupport or false;
      };
      torchvision = overridable torchvision { torch = null; };
    };
  } overlays;
in
final
