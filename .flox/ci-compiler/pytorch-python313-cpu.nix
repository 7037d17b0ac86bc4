# Compiled by ci-compile from torch.yaml (bundled). Do not edit: change the spec, then run `ci-compile recipes`.
# What recipes of PyTorch 2.8.0 for Python 3.13 and CPUs share.

{ pname, cpuISA, system, cpuFlags, description, runsOn }:

let
  nixpkgs = builtins.fetchTarball {
    url = "https://github.com/NixOS/nixpkgs/archive/fe5e41d7ffc0421f0913e8472ce6238ed0daf8e3.tar.gz";
  };

  pkgs = import nixpkgs {
    inherit system;
    config = {
      allowUnfree = true;
    };
  };

  inherit (pkgs) lib;
in
(pkgs.python313Packages.torch.override { cudaSupport = false; }).overrideAttrs (old: {
  inherit pname;

  requiredSystemFeatures = lib.unique ((old.requiredSystemFeatures or [ ]) ++ [ "big-parallel" ]);

  preConfigure = (old.preConfigure or "") + "\n" + ''
    export CXXFLAGS="${lib.concatStringsSep " " cpuFlags} $CXXFLAGS"
    export CFLAGS="${lib.concatStringsSep " " cpuFlags} $CFLAGS"
    export MAX_JOBS=32
    # The lower of both numbers counts: nixpkgs' hooks read NIX_BUILD_CORES, setup.py reads MAX_JOBS.
    : $((NIX_BUILD_CORES = MAX_JOBS = NIX_BUILD_CORES < MAX_JOBS ? NIX_BUILD_CORES : MAX_JOBS))
  '';

  preBuild = (old.preBuild or "") + "\n" + ''
    ${import ./shell/arrived.nix}
    arrived CMAKE_C_FLAGS "${lib.concatStringsSep " " cpuFlags}"
    arrived CMAKE_CXX_FLAGS "${lib.concatStringsSep " " cpuFlags}"
  '';

  passthru = (old.passthru or { }) // {
    gpuArch = null;
    inherit cpuISA;
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
