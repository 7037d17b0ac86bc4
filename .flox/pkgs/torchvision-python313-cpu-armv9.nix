# Compiled by ci-compile from torch.yaml (bundled). Do not edit: change the spec, then run `ci-compile recipes`.
# TorchVision 0.23.0 for ARM CPUs with ARMv9-A with SVE2.

{ ... }:

let
  nixpkgs = builtins.fetchTarball {
    url = "https://github.com/NixOS/nixpkgs/archive/fe5e41d7ffc0421f0913e8472ce6238ed0daf8e3.tar.gz";
  };

  pkgs = import nixpkgs {
    system = "aarch64-linux";
    config = {
      allowUnfree = true;
    };
  };

  inherit (pkgs) lib;

  # The PyTorch of this very cell: the derivation that its own recipe builds.
  torch = import ./pytorch-python313-cpu-armv9.nix { };

  # ARMv9-A with SVE2: Neoverse V2 (NVIDIA Grace, Graviton4), GB10, Thor and later; not Graviton3.
  cpuFlags = [ "-march=armv9-a+sve2" ];
in
(pkgs.python313Packages.torchvision.override { inherit torch; }).overrideAttrs (old: {
  pname = "torchvision-python313-cpu-armv9";

  requiredSystemFeatures = lib.unique ((old.requiredSystemFeatures or [ ]) ++ [ "big-parallel" ]);

  propagatedBuildInputs = (old.propagatedBuildInputs or [ ]) ++ [ torch.out ];

  preConfigure = (old.preConfigure or "") + "\n" + ''
    export CXXFLAGS="${lib.concatStringsSep " " cpuFlags} $CXXFLAGS"
    export CFLAGS="${lib.concatStringsSep " " cpuFlags} $CFLAGS"
    export MAX_JOBS=32
    # The lower of both numbers counts: nixpkgs' hooks read NIX_BUILD_CORES, setup.py reads MAX_JOBS.
    : $((NIX_BUILD_CORES = MAX_JOBS = NIX_BUILD_CORES < MAX_JOBS ? NIX_BUILD_CORES : MAX_JOBS))
  '';

  passthru = (old.passthru or { }) // {
    gpuArch = null;
    cpuISA = "armv9";
  };

  meta = (old.meta or { }) // {
    description = "TorchVision for CPUs with ARMv9-A with SVE2";
    longDescription = ''
      TorchVision 0.23.0 for Python 3.13, built for one kind of hardware:
      - CPU: Neoverse V2 (NVIDIA Grace, Graviton4), GB10, Thor and later; not Graviton3
    '';
    platforms = [ "aarch64-linux" ];
  };
})
