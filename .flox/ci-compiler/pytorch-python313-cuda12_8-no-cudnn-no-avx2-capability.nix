# Compiled by ci-compile from torch.yaml (bundled). Do not edit: change the spec, then run `ci-compile recipes`.
# What recipes of PyTorch 2.8.0 for Python 3.13 and CUDA 12.8 share.

{ pname, gpuArch, gpuArchSM, cpuISA, system, cpuFlags, description, runsOn, gpuArchNumber ? builtins.replaceStrings [ "." ] [ "" ] gpuArchSM }:

let
  nixpkgs = builtins.fetchTarball {
    url = "https://github.com/NixOS/nixpkgs/archive/fe5e41d7ffc0421f0913e8472ce6238ed0daf8e3.tar.gz";
  };

  pkgs = import nixpkgs {
    inherit system;
    config = {
      allowUnfree = true;
      cudaSupport = true;
      cudaCapabilities = [ gpuArchSM ];
    };
    overlays = [
      # CUDA 12.8 in place of nixpkgs' default.
      (final: prev: { cudaPackages = final.cudaPackages_12_8; })
    ];
  };

  inherit (pkgs) lib;
in
(pkgs.python313Packages.torch.override {
  cudaSupport = true;
  gpuTargets = [ gpuArchSM ];
}).overrideAttrs (old: {
  inherit pname;

  requiredSystemFeatures = lib.unique ((old.requiredSystemFeatures or [ ]) ++ [ "big-parallel" ]);

  postPatch = (old.postPatch or "") + "\n" + ''
    # CUDA files of these targets take up to 5 GB of memory each, others about 1: a job pool holds as many as fit.
    cat >> CMakeLists.txt <<'CMAKE'
    set_property(GLOBAL APPEND PROPERTY JOB_POOLS heavy=$ENV{HEAVY_JOBS})
    foreach(target torch_cuda flash_attention)
      if(TARGET ''${target})
        set_property(TARGET ''${target} PROPERTY JOB_POOL_COMPILE heavy)
      endif()
    endforeach()
    CMAKE
    # These libraries and ATen's dispatched kernels would use AVX2 on a build for CPUs without it.
    for set in AVX2 AVX512; do
      sed -i "1i set(C_''${set}_FOUND FALSE CACHE BOOL off)" cmake/Modules/FindAVX.cmake
      sed -i "1i set(CXX_''${set}_FOUND FALSE CACHE BOOL off)" cmake/Modules/FindAVX.cmake
      sed -i "1i set(CAFFE2_COMPILER_SUPPORTS_''${set}_EXTENSIONS FALSE CACHE BOOL off)" cmake/MiscCheck.cmake
    done
  '';

  preConfigure = (old.preConfigure or "") + "\n" + ''
    export CXXFLAGS="${lib.concatStringsSep " " cpuFlags} $CXXFLAGS"
    export CFLAGS="${lib.concatStringsSep " " cpuFlags} $CFLAGS"
    # nvcc reads neither: this is for the host code of CUDA files. nixpkgs' hooks add to the same variable.
    export NVCC_APPEND_FLAGS="$NVCC_APPEND_FLAGS ${lib.concatMapStringsSep " " (flag: "-Xcompiler=${flag}") cpuFlags}"
    export MAX_JOBS=32
    # The lower of both numbers counts: nixpkgs' hooks read NIX_BUILD_CORES, setup.py reads MAX_JOBS.
    : $((NIX_BUILD_CORES = MAX_JOBS = NIX_BUILD_CORES < MAX_JOBS ? NIX_BUILD_CORES : MAX_JOBS))
    # CUDA files of these targets take up to 5 GB of memory each, others about 1: a job pool holds as many as fit.
    memory=$(sed -n 's/^MemAvailable: *\([0-9]*\) kB$/\1/p' /proc/meminfo)
    HEAVY_JOBS=$(((memory / 1048576 - NIX_BUILD_CORES) / 4))
    export HEAVY_JOBS=$((HEAVY_JOBS < 1 ? 1 : HEAVY_JOBS < NIX_BUILD_CORES ? HEAVY_JOBS : NIX_BUILD_CORES))
    # cuDNN 9.11 and later need compute capability 7.5 or higher.
    export USE_CUDNN=0
    # These libraries and ATen's dispatched kernels would use AVX2 on a build for CPUs without it.
    export USE_FBGEMM=0
    export USE_MKLDNN=0
    export USE_MKLDNN_CBLAS=0
    export USE_NNPACK=0
  '';

  preBuild = (old.preBuild or "") + "\n" + ''
    ${import ./shell/arrived.nix}
    ${import ./shell/built-for.nix}
    arrived CMAKE_C_FLAGS "${lib.concatStringsSep " " cpuFlags}"
    arrived CMAKE_CXX_FLAGS "${lib.concatStringsSep " " cpuFlags}"
    arrived USE_CUDNN 0
    arrived USE_FBGEMM 0
    arrived USE_MKLDNN 0
    arrived USE_MKLDNN_CBLAS 0
    arrived USE_NNPACK 0
    arrived C_AVX2_FOUND FALSE
    arrived CXX_AVX2_FOUND FALSE
    arrived C_AVX512_FOUND FALSE
    arrived CXX_AVX512_FOUND FALSE
    grep '^ *FLAGS = ' build/build.ninja | built_for 0.5 ${gpuArchNumber}
  '';

  preFixup = (old.preFixup or "") + "\n" + ''
    for output in $(getAllOutputNames); do
      [ ! -e "''${!output}" ] ||
        find "''${!output}" -name "*.so*" -type f -exec ${lib.getBin pkgs.cudaPackages.cuda_cuobjdump}/bin/cuobjdump --list-elf {} \;
    done | built_for 1000000 ${gpuArchNumber}
  '';

  passthru = (old.passthru or { }) // {
    inherit gpuArch;
    inherit cpuISA;
    cudaCapabilities = [ gpuArchSM ];
  };

  meta = (old.meta or { }) // {
    inherit description;
    longDescription = ''
      PyTorch 2.8.0 for Python 3.13, built for one kind of hardware:
      ${lib.concatMapStringsSep "\n" (line: "- ${line}") runsOn}
    '';
    platforms = [ system ];
  };
})
