# Compiled by ci-compile from torch.yaml (bundled). Do not edit: change the spec, then run `ci-compile recipes`.
# What recipes of TorchAudio 2.8.0 for Python 3.13 and CUDA 12.8 share.

{ pname, gpuArch, gpuArchSM, cpuISA, system, cpuFlags, needs, description, runsOn, gpuArchNumber ? builtins.replaceStrings [ "." ] [ "" ] gpuArchSM }:

let
  nixpkgs = builtins.fetchTarball {
    url = "https://github.com/NixOS/nixpkgs/archive/fe5e41d7ffc0421f0913e8472ce6238ed0daf8e3.tar.gz";
  };

  pkgs = import nixpkgs {
    inherit system;
    config = {
      allowUnfree = true;
      cudaSupport = true;
    };
    overlays = [
      # CUDA 12.8 in place of nixpkgs' default.
      (final: prev: { cudaPackages = final.cudaPackages_12_8; })
    ];
  };

  inherit (pkgs) lib;

  # The PyTorch of this very cell: the derivation that its own recipe builds.
  torch = needs.torch;
in
(pkgs.python313Packages.torchaudio.override { inherit torch; }).overrideAttrs (old: {
  inherit pname;

  requiredSystemFeatures = lib.unique ((old.requiredSystemFeatures or [ ]) ++ [ "big-parallel" ]);

  propagatedBuildInputs = (old.propagatedBuildInputs or [ ]) ++ [ torch.out ];

  preConfigure = (old.preConfigure or "") + "\n" + ''
    export CXXFLAGS="${lib.concatStringsSep " " cpuFlags} $CXXFLAGS"
    export CFLAGS="${lib.concatStringsSep " " cpuFlags} $CFLAGS"
    # nvcc reads neither: this is for the host code of CUDA files. nixpkgs' hooks add to the same variable.
    export NVCC_APPEND_FLAGS="$NVCC_APPEND_FLAGS ${lib.concatMapStringsSep " " (flag: "-Xcompiler=${flag}") cpuFlags}"
    export MAX_JOBS=32
    # The lower of both numbers counts: nixpkgs' hooks read NIX_BUILD_CORES, setup.py reads MAX_JOBS.
    : $((NIX_BUILD_CORES = MAX_JOBS = NIX_BUILD_CORES < MAX_JOBS ? NIX_BUILD_CORES : MAX_JOBS))
    # Its own CUDA kernels, for the same GPU as torch's.
    export TORCH_CUDA_ARCH_LIST="${gpuArchSM}"
    export FORCE_CUDA=1
  '';

  preFixup = (old.preFixup or "") + "\n" + ''
    ${import ./shell/built-for.nix}
    for output in $(getAllOutputNames); do
      [ ! -e "''${!output}" ] ||
        find "''${!output}" -name "*.so*" -type f -exec ${lib.getBin pkgs.cudaPackages.cuda_cuobjdump}/bin/cuobjdump --list-elf {} \;
    done | built_for 0 ${gpuArchNumber}
  '';

  passthru = (old.passthru or { }) // {
    inherit gpuArch;
    inherit cpuISA;
  };

  meta = (old.meta or { }) // {
    inherit description;
    longDescription = ''
      TorchAudio 2.8.0 for Python 3.13, built for one kind of hardware:
      ${lib.concatMapStringsSep "\n" (line: "- ${line}") runsOn}
    '';
    platforms = [ system ];
  };
})
