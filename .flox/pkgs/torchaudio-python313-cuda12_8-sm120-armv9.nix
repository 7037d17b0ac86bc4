# Compiled by ci-compile from torch.yaml (bundled). Do not edit: change the spec, then run `ci-compile recipes`.
# TorchAudio 2.8.0 for NVIDIA Blackwell (sm120: RTX 50 series, RTX PRO Blackwell) and ARM CPUs with ARMv9-A with SVE2.

{ ... }:

let
  nixpkgs = builtins.fetchTarball {
    url = "https://github.com/NixOS/nixpkgs/archive/fe5e41d7ffc0421f0913e8472ce6238ed0daf8e3.tar.gz";
  };

  pkgs = import nixpkgs {
    system = "aarch64-linux";
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
  torch = import ./pytorch-python313-cuda12_8-sm120-armv9.nix { };

  # TORCH_CUDA_ARCH_LIST takes 12.0, never sm_120.
  gpuArchSM = "12.0";

  # ARMv9-A with SVE2: Neoverse V2 (NVIDIA Grace, Graviton4), GB10, Thor and later; not Graviton3.
  cpuFlags = [ "-march=armv9-a+sve2" ];
in
(pkgs.python313Packages.torchaudio.override { inherit torch; }).overrideAttrs (old: {
  pname = "torchaudio-python313-cuda12_8-sm120-armv9";

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
    # built_for LIMIT NUMBER...: reads lines that name architectures by their numbers, and ends the build unless each NUMBER
    # is among them, and any other in at most LIMIT times as many lines as the rarest of those.
    built_for() {
      awk -v limit="$1" -v wanted="''${*:2}" '
        {
          split("", seen)
          while (match($0, /sm_[0-9]+/)) {
            sm = substr($0, RSTART + 3, RLENGTH - 3)
            $0 = substr($0, RSTART + RLENGTH)
            if (!seen[sm]++) lines[sm]++
          }
        }
        END {
          size = split(wanted, list, " ")
          for (i = 1; i <= size; i++) {
            is_wanted[list[i]] = 1
            if (i == 1 || lines[list[i]] < least) least = lines[list[i]] + 0
            if (!lines[list[i]]) problem = problem " nothing is built for sm_" list[i] ";"
          }
          for (sm in lines)
            if (!is_wanted[sm] && lines[sm] > limit * least) problem = problem " " lines[sm] " are built for sm_" sm ";"
          if (problem) {
            print "ci-compiler: the recipe declares sm_" wanted ":" problem " the declaration did not arrive" > "/dev/stderr"
            exit 1
          }
        }'
    }
    for output in $(getAllOutputNames); do
      [ ! -e "''${!output}" ] ||
        find "''${!output}" -name "*.so*" -type f -exec ${lib.getBin pkgs.cudaPackages.cuda_cuobjdump}/bin/cuobjdump --list-elf {} \;
    done | built_for 0 120
  '';

  passthru = (old.passthru or { }) // {
    gpuArch = "sm120";
    cpuISA = "armv9";
  };

  meta = (old.meta or { }) // {
    description = "TorchAudio for NVIDIA Blackwell (sm120) and CPUs with ARMv9-A with SVE2";
    longDescription = ''
      TorchAudio 2.8.0 for Python 3.13, built for one kind of hardware:
      - GPU: RTX 50 series, RTX PRO Blackwell (compute capability 12.0)
      - CUDA 12.8, NVIDIA driver 570 or newer
      - CPU: Neoverse V2 (NVIDIA Grace, Graviton4), GB10, Thor and later; not Graviton3
    '';
    platforms = [ "aarch64-linux" ];
  };
})
