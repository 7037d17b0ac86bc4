# One of nixpkgs' CUDA package sets: `cudaPackages`, `cudaPackages_13`, `cudaPackages_12_9`, …
{ lib, package, members }:
{ context, attribute, version, names, base }:
let
  inherit (builtins) mapAttrs;
  member = name: package.invent { inherit context members; attribute = "${attribute}.${name}"; };
  versioned = name: package.invent { inherit context members version; attribute = "${attribute}.${name}"; };

  known = self:
    lib.genAttrs [
      "cuda_cccl" "cuda_cudart" "cuda_cupti" "cuda_nvcc" "cuda_nvml_dev" "cuda_nvrtc" "cuda_nvtx" "cuda_profiler_api"
      "cudatoolkit" "cudnn" "cutensor" "libcublas" "libcufft" "libcufile" "libcurand" "libcusolver" "libcusparse"
      "libcusparse_lt" "libnvjitlink" "nccl"
    ] versioned
    // {
      cudaVersion = version;
      cudaMajorMinorVersion = version;
      cudaMajorVersion = lib.major version;
      cudaOlder = lib.versionOlder version;
      cudaAtLeast = lib.versionAtLeast version;
      cudaNamePrefix = "cuda${version}";
      backendStdenv = base.stdenv;
      flags = self.cudaFlags;
      cudaFlags = rec {
        cudaCapabilities = context.config.cudaCapabilities or [ ];
        cudaForwardCompat = context.config.cudaForwardCompat or true;
        realArches = map (c: "sm_" + dropDot c) cudaCapabilities;
        gencode = map (c: "-gencode=arch=compute_${dropDot c},code=sm_${dropDot c}") cudaCapabilities;
        gencodeString = lib.concatStringsSep " " gencode;
        cmakeCudaArchitecturesString = lib.concatMapStringsSep ";" dropDot cudaCapabilities;
        dropDot = lib.replaceStrings [ "." ] [ "" ];
        dropDots = dropDot;
        cudaMajorMinorVersion = version;
      };
      pkgs = base;
    };

  # Names that are packages of nixpkgs itself are not made up here: `with cudaPackages;` would hide the real ones.
  invented = mapAttrs (name: _: member name) (removeAttrs names (builtins.attrNames context.known));

  build = overlay:
    let
      self = prev // overlay self prev // {
        overrideScope = extra: build (lib.composeExtensions overlay extra);
        override = _: self;
        newScope = extra: lib.callPackageWith (base // self // extra);
        callPackage = lib.callPackageWith (base // self);
        # What record.nix reads: by which attribute, and which toolkit.
        __toolkit = { inherit attribute version; };
        __label = "cudaPackages ${version}";
      };
      prev = invented // known self;
    in
    self;
in
build (_: _: { })
