# Compiled by ci-compile from torch.yaml (bundled). Do not edit: change the spec, then run `ci-compile recipes`.
# TorchAudio 2.8.0 for x86-64 CPUs with AVX-512 with VNNI.

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

  # The PyTorch of this very cell: the derivation that its own recipe builds.
  torch = import ./pytorch-python313-cpu-avx512vnni.nix { };

  # AVX-512 with VNNI: Intel Cascade Lake (2019), AMD Zen 4 (2022) and later.
  cpuFlags = [ "-mavx512f" "-mavx512dq" "-mavx512vl" "-mavx512bw" "-mfma" "-mavx512vnni" ];
in
(pkgs.python313Packages.torchaudio.override { inherit torch; }).overrideAttrs (old: {
  pname = "torchaudio-python313-cpu-avx512vnni";

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
    cpuISA = "avx512vnni";
  };

  meta = (old.meta or { }) // {
    description = "TorchAudio for CPUs with AVX-512 with VNNI";
    longDescription = ''
      TorchAudio 2.8.0 for Python 3.13, built for one kind of hardware:
      - CPU: Intel Cascade Lake (2019), AMD Zen 4 (2022) and later
    '';
    platforms = [ "x86_64-linux" ];
  };
})
