# Compiled by ci-compile from torch.yaml (bundled). Do not edit: change the spec, then run `ci-compile recipes`.
# PyTorch 2.8.0 for NVIDIA Pascal (sm61: GTX 1050 to 1080 Ti, Titan Xp, Tesla P40 and P4) and x86-64 CPUs with AVX.

{ ... }:

let
  nixpkgs = builtins.fetchTarball {
    url = "https://github.com/NixOS/nixpkgs/archive/fe5e41d7ffc0421f0913e8472ce6238ed0daf8e3.tar.gz";
  };

  pkgs = import nixpkgs {
    system = "x86_64-linux";
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

  # TORCH_CUDA_ARCH_LIST takes 6.1, never sm_61.
  gpuArchSM = "6.1";

  # AVX: Intel Sandy Bridge (2011) or AMD Bulldozer (2011) and later.
  cpuFlags = [ "-mavx" "-mno-fma" "-mno-bmi" "-mno-bmi2" "-mno-avx2" ];
in
(pkgs.python313Packages.torch.override {
  cudaSupport = true;
  gpuTargets = [ gpuArchSM ];
}).overrideAttrs (old: {
  pname = "pytorch-python313-cuda12_8-sm61-avx";

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
    grep '^ *FLAGS = ' build/build.ninja | built_for 0.5 61
  '';

  preFixup = (old.preFixup or "") + "\n" + ''
    for output in $(getAllOutputNames); do
      [ ! -e "''${!output}" ] ||
        find "''${!output}" -name "*.so*" -type f -exec ${lib.getBin pkgs.cudaPackages.cuda_cuobjdump}/bin/cuobjdump --list-elf {} \;
    done | built_for 1000000 61
  '';

  passthru = (old.passthru or { }) // {
    gpuArch = "sm61";
    cpuISA = "avx";
    cudaCapabilities = [ gpuArchSM ];
  };

  meta = (old.meta or { }) // {
    description = "PyTorch for NVIDIA Pascal (sm61) and CPUs with AVX";
    longDescription = ''
      PyTorch 2.8.0 for Python 3.13, built for one kind of hardware:
      - GPU: GTX 1050 to 1080 Ti, Titan Xp, Tesla P40 and P4 (compute capability 6.1)
      - CUDA 12.8, NVIDIA driver 525 or newer
      - CPU: Intel Sandy Bridge (2011) or AMD Bulldozer (2011) and later
      - Without cuDNN: convolutions and recurrent layers run on PyTorch's own kernels, which are slower
      - Without FBGEMM, oneDNN and NNPACK, which use AVX2: quantized models do not run with FBGEMM, and convolutions on the CPU are slower
    '';
    platforms = [ "x86_64-linux" ];
  };
})
