# Compiled by ci-compile from torch.yaml (bundled). Do not edit: change the spec, then run `ci-compile recipes`.
# PyTorch 2.8.0 for x86-64 CPUs with AVX-512.

{ ... }:

let
  nixpkgs = builtins.fetchTarball {
    url = "https://github.com/NixOS/nixpkgs/archive/fe5e41d7ffc0421f0913e8472ce6238ed0daf8e3.tar.gz";
  };

  pkgs = import nixpkgs {
    system = "x86_64-linux";
    config = {
      allowUnfree = true;
    };
  };

  inherit (pkgs) lib;

  # AVX-512: Intel Skylake-X or Skylake-SP (2017), AMD Zen 4 (2022) and later.
  cpuFlags = [ "-mavx512f" "-mavx512dq" "-mavx512vl" "-mavx512bw" "-mfma" ];
in
(pkgs.python313Packages.torch.override { cudaSupport = false; }).overrideAttrs (old: {
  pname = "pytorch-python313-cpu-avx512";

  requiredSystemFeatures = lib.unique ((old.requiredSystemFeatures or [ ]) ++ [ "big-parallel" ]);

  preConfigure = (old.preConfigure or "") + "\n" + ''
    export CXXFLAGS="${lib.concatStringsSep " " cpuFlags} $CXXFLAGS"
    export CFLAGS="${lib.concatStringsSep " " cpuFlags} $CFLAGS"
    export MAX_JOBS=32
    # The lower of both numbers counts: nixpkgs' hooks read NIX_BUILD_CORES, setup.py reads MAX_JOBS.
    : $((NIX_BUILD_CORES = MAX_JOBS = NIX_BUILD_CORES < MAX_JOBS ? NIX_BUILD_CORES : MAX_JOBS))
  '';

  preBuild = (old.preBuild or "") + "\n" + ''
    # arrived NAME VALUE [optional]: ends the build unless CMake's cache has VALUE, among other words or as the same boolean.
    arrived() {
      local cache=CMakeCache.txt found alike
      [ -e "$cache" ] || cache=build/CMakeCache.txt
      found=$(grep "^$1:" "$cache") || [ -z "''${3-}" ] || return 0
      found=''${found#*=}
      case " $found " in *" $2 "*) return 0 ;; esac
      for alike in "1 ON YES TRUE Y" "0 OFF NO FALSE N IGNORE"; do
        case " $alike " in *" ''${2^^} "*) case " $alike " in *" ''${found^^} "*) return 0 ;; esac ;; esac
      done
      echo "ci-compiler: the recipe sets $1 to $2, and $cache has ''${found:-nothing}: the switch did not arrive" >&2
      exit 1
    }
    arrived CMAKE_C_FLAGS "${lib.concatStringsSep " " cpuFlags}"
    arrived CMAKE_CXX_FLAGS "${lib.concatStringsSep " " cpuFlags}"
  '';

  passthru = (old.passthru or { }) // {
    gpuArch = null;
    cpuISA = "avx512";
  };

  meta = (old.meta or { }) // {
    description = "PyTorch for CPUs with AVX-512";
    longDescription = ''
      PyTorch 2.8.0 for Python 3.13, built for one kind of hardware:
      - CPU: Intel Skylake-X or Skylake-SP (2017), AMD Zen 4 (2022) and later
    '';
    platforms = [ "x86_64-linux" ];
  };
})
