# Compiled by ci-compile from torch.yaml (bundled). Do not edit: change the spec, then run `ci-compile recipes`.
# PyTorch 2.8.0 for x86-64 CPUs with AVX2.

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

  # AVX2: Intel Haswell (2013), AMD Excavator (2015) or Zen (2017) and later.
  cpuFlags = [ "-mavx2" "-mfma" "-mf16c" ];
in
(pkgs.python313Packages.torch.override { cudaSupport = false; }).overrideAttrs (old: {
  pname = "pytorch-python313-cpu-avx2";

  requiredSystemFeatures = [ "big-parallel" ];

  preConfigure = (old.preConfigure or "") + ''
    export CXXFLAGS="${lib.concatStringsSep " " cpuFlags} $CXXFLAGS"
    export CFLAGS="${lib.concatStringsSep " " cpuFlags} $CFLAGS"
    export MAX_JOBS=32
    # The lower of both numbers counts: nixpkgs' hooks read NIX_BUILD_CORES, setup.py reads MAX_JOBS.
    : $((NIX_BUILD_CORES = MAX_JOBS = NIX_BUILD_CORES < MAX_JOBS ? NIX_BUILD_CORES : MAX_JOBS))
  '';

  passthru = (old.passthru or { }) // {
    gpuArch = null;
    cpuISA = "avx2";
    blasProvider = "openblas";
  };

  meta = (old.meta or { }) // {
    description = "PyTorch for CPUs with AVX2";
    longDescription = ''
      PyTorch 2.8.0 for Python 3.13, built for one kind of hardware:
      - CPU: Intel Haswell (2013), AMD Excavator (2015) or Zen (2017) and later
    '';
    platforms = [ "x86_64-linux" ];
  };
})
