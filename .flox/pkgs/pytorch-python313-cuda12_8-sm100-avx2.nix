# Compiled by ci-compile from torch.yaml (bundled). Do not edit: change the spec, then run `ci-compile recipes`.
# PyTorch 2.8.0 for NVIDIA Blackwell (sm100: B100, B200, GB200) and x86-64 CPUs with AVX2.

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
    };
    overlays = [
      # CUDA 12.8 in place of nixpkgs' default.
      (final: prev: { cudaPackages = final.cudaPackages_12_8; })
    ];
  };

  inherit (pkgs) lib;

  # TORCH_CUDA_ARCH_LIST takes 10.0, never sm_100.
  gpuArchSM = "10.0";

  # AVX2: Intel Haswell (2013), AMD Excavator (2015) or Zen (2017) and later.
  cpuFlags = [ "-mavx2" "-mfma" "-mf16c" ];
in
(pkgs.python313Packages.torch.override {
  cudaSupport = true;
  gpuTargets = [ gpuArchSM ];
}).overrideAttrs (old: {
  pname = "pytorch-python313-cuda12_8-sm100-avx2";

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
    grep '^ *FLAGS = ' build/build.ninja | built_for 0.5 100
  '';

  preFixup = (old.preFixup or "") + "\n" + ''
    for output in $(getAllOutputNames); do
      [ ! -e "''${!output}" ] ||
        find "''${!output}" -name "*.so*" -type f -exec ${lib.getBin pkgs.cudaPackages.cuda_cuobjdump}/bin/cuobjdump --list-elf {} \;
    done | built_for 1000000 100
  '';

  passthru = (old.passthru or { }) // {
    gpuArch = "sm100";
    cpuISA = "avx2";
    cudaCapabilities = [ gpuArchSM ];
  };

  meta = (old.meta or { }) // {
    description = "PyTorch for NVIDIA Blackwell (sm100) and CPUs with AVX2";
    longDescription = ''
      PyTorch 2.8.0 for Python 3.13, built for one kind of hardware:
      - GPU: B100, B200, GB200 (compute capability 10.0)
      - CUDA 12.8, NVIDIA driver 570 or newer
      - CPU: Intel Haswell (2013), AMD Excavator (2015) or Zen (2017) and later
    '';
    platforms = [ "x86_64-linux" ];
  };
})
