# What nixpkgs has for CUDA, as far as a recipe can tell: see ci_compiler/adoption/standin/families.nix.
{ lib, package, members, names }:
let
  inherit (builtins) attrNames elemAt filter mapAttrs match;

  # One of nixpkgs' package sets: `cudaPackages`, `cudaPackages_13`, `cudaPackages_12_9`, …
  setOf =
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
  build (_: _: { });

  # The release that a `cudaPackages_<major>` stands for.
  ofMajor = { "10" = "10.2"; "11" = "11.8"; "12" = "12.8"; "13" = "13.0"; };
  versionOf = numbers:
    let major = elemAt numbers 0; minor = elemAt numbers 2;
    in if minor == null then ofMajor.${major} or "${major}.0" else "${major}.${minor}";

  # The sets that a recipe names, and those that are always there, with the numbers in their names.
  sets = lib.genAttrs (filter (name: match pattern name != null) (attrNames names) ++ [
    "cudaPackages_12" "cudaPackages_12_6" "cudaPackages_12_8" "cudaPackages_12_9" "cudaPackages_13" "cudaPackages_13_0"
  ]) (match pattern);
  pattern = "cudaPackages_([0-9]+)(_([0-9]+))?(_[0-9]+)?";
in
{
  config = { cudaSupport = false; };

  known = { context, base, pin }:
    let made = attribute: version: setOf { inherit context attribute version names base; };
    in mapAttrs (name: numbers: made name (versionOf numbers)) sets // {
      cudaPackages = made "cudaPackages" pin.toolkit;
      pkgsCuda = context.again { config = context.given // { cudaSupport = true; }; };
    };

  torch = { context, base }: {
    arguments = {
      cudaSupport = context.config.cudaSupport or false;
      inherit (base) cudaPackages;
    };
    # What a build for GPUs is of: through these, an overlay's change reaches torch, and through no others.
    inputs = args: lib.optionals args.cudaSupport (
      [ args.magma ]
      ++ map (member: args.cudaPackages.${member})
        [ "cuda_cccl" "cuda_cudart" "cuda_nvcc" "cudnn" "libcublas" "nccl" ]
    );
    extras = args: {
      inherit (args) cudaSupport cudaPackages;
      cudaCapabilities = args.gpuTargets;
    };
    # Names of old: they work, and the record says that a recipe came by them.
    aliases = alias: {
      pytorchWithCuda = (alias "pytorchWithCuda").override { cudaSupport = true; };
      torchWithCuda = (alias "torchWithCuda").override { cudaSupport = true; };
      torchWithoutCuda = (alias "torchWithoutCuda").override { cudaSupport = false; };
    };
  };

  # What a package that uses torch has from it, as in nixpkgs.
  user = { base, args }: {
    cudaSupport = args.torch.cudaSupport or false;
    cudaPackages = args.torch.cudaPackages or base.cudaPackages;
  };

  # The package set of the toolkit in what a package has, else of nixpkgs itself; and whether it is built for GPUs.
  toolkit = { effective, final }: effective.cudaPackages or final.cudaPackages;
  support = { effective, config }: effective.cudaSupport or (config.cudaSupport or false);
}
