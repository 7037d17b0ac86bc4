# What nixpkgs has for CUDA, as far as a recipe can tell: see ci_compiler/adoption/standin/families.nix.
{ lib, package, members, names }:
let
  inherit (builtins) attrNames attrValues elem elemAt filter fromJSON head mapAttrs match readFile sort;

  # What nixpkgs knows of compute capabilities: _cuda/db/bootstrap/cuda.nix and _cuda/lib/cuda.nix.
  facts = fromJSON (readFile ./nixpkgs.json);
  gpus = attrValues (fromJSON (readFile ./gpus.json)).gpus;
  newest = lib.last (sort lib.versionOlder (attrNames (fromJSON (readFile ./toolkits.json)).toolkits));
  rows = lib.listToAttrs (map (gpu: lib.nameValuePair gpu.capability [ gpu.first_toolkit gpu.last_toolkit ]) gpus)
    // facts.apart;
  sorted = sort lib.versionOlder (attrNames rows);
  baseline = capability: head (match "([0-9.]+)[af]?" capability);
  isSupported = version: capability:
    let toolkits = rows.${capability}; latest = lib.last toolkits;
    in lib.versionAtLeast version (head toolkits) && (latest == null || lib.versionAtLeast latest version);
  isDefault = version: capability:
    let until = facts.default_until.${capability} or null;
    in if until == null then elem capability facts.default else lib.versionAtLeast until version;
  isJetson = capability: facts.apart ? ${baseline capability};
  isThor = lib.flip lib.versionAtLeast "10.1";

  # cudaPackages.backendStdenv: the capabilities asked for, and what nixpkgs refuses: packages/backendStdenv.nix.
  # Another revision than those that are known, or a newer toolkit, may know more capabilities.
  askedFor = { version, config, system, isKnownPin }:
    let
      cudaCapabilities =
        if config.cudaCapabilities or [ ] != [ ] then config.cudaCapabilities
        else filter (one: isSupported version one && isDefault version one) sorted;
      isKnown = one: match "[0-9.]+[af]?" one != null && rows ? ${baseline one};
      jetson = filter isJetson (filter isKnown cudaCapabilities);
      named = lib.concatStringsSep ", ";
      old = filter (one: !isThor one) jetson;
      refused = filter (problem: problem.names != [ ]) [
        {
          names = filter (one: isKnownPin && lib.versionAtLeast newest version && !isKnown one) cudaCapabilities;
          why = "nixpkgs does not know them";
        }
        {
          names = filter (one: isKnown one && !isSupported version (baseline one)) cudaCapabilities;
          why = "CUDA ${version} does not support them";
        }
        { names = lib.optionals (system != "aarch64-linux") jetson; why = "they are for aarch64-linux"; }
        { names = lib.optionals (old != cudaCapabilities) old; why = "nixpkgs builds for them alone"; }
      ];
    in
    lib.throwIf (refused != [ ]) "nixpkgs' cudaPackages.backendStdenv refuses config.cudaCapabilities: ${
      lib.concatMapStringsSep "; " (problem: "${named problem.names} (${problem.why})") refused
    }" {
      inherit cudaCapabilities;
      requestedJetsonCudaCapabilities = jetson;
      hasJetsonCudaCapability = jetson != [ ];
    };

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
        "libcusparse_lt" "libnvjitlink"
      ] versioned
      // {
        cudaVersion = version;
        cudaMajorMinorVersion = version;
        cudaMajorVersion = lib.major version;
        cudaOlder = lib.versionOlder version;
        cudaAtLeast = lib.versionAtLeast version;
        cudaNamePrefix = "cuda${version}";
        backendStdenv = base.stdenv // askedFor { inherit version; inherit (context) config system isKnownPin; };
        flags = self.cudaFlags;
        cudaFlags = rec {
          inherit (self.backendStdenv) cudaCapabilities;
          isJetsonBuild = self.backendStdenv.hasJetsonCudaCapability;
          cudaForwardCompat = context.config.cudaForwardCompat or true;
          realArches = map (c: "sm_" + dropDot c) cudaCapabilities;
          gencode = map (code "sm") cudaCapabilities
            ++ lib.optional cudaForwardCompat (code "compute" (lib.last cudaCapabilities));
          code = kind: c: "-gencode=arch=compute_${dropDot c},code=${kind}_${dropDot c}";
          gencodeString = lib.concatStringsSep " " gencode;
          cmakeCudaArchitecturesString = lib.concatMapStringsSep ";" dropDot cudaCapabilities;
          dropDot = lib.replaceStrings [ "." ] [ "" ];
          dropDots = dropDot;
          cudaMajorMinorVersion = version;
        };
        pkgs = base;
        # CUDA 13 has no cuda_compat, and before it only Jetsons do. nixpkgs' hook does nothing where there is none.
        cuda_compat = available (self.flags.isJetsonBuild && lib.versionOlder version "13") (versioned "cuda_compat");
        autoAddCudaCompatRunpath = versioned "autoAddCudaCompatRunpath" // { enableHook = self.cuda_compat.meta.available; };
        nccl = available (lib.all isThor self.backendStdenv.requestedJetsonCudaCapabilities) (versioned "nccl");
      };
    available = is: lib.addMetaAttrs { available = is; };

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
    patches = args: lib.optionals args.cudaSupport (context.derivations.torch.cudaPatches or [ ]);
    variables = args: lib.genAttrs [ "USE_NCCL" "USE_STATIC_NCCL" "USE_SYSTEM_NCCL" ] (_:
      if args.cudaSupport && args.cudaPackages.nccl.meta.available then "1" else "0");
    # Without `gpuTargets`, nixpkgs' default architectures go into the same variable.
    preConfigure = args: lib.optionalString args.cudaSupport (package.inherited
      + lib.optionalString (args.gpuTargets != [ ]) ''
        export TORCH_CUDA_ARCH_LIST="${lib.concatStringsSep ";" args.gpuTargets}"
      '');
    isBroken = args:
      args.cudaSupport && !elem args.cudaPackages.cudaMajorVersion (context.derivations.torch.cudaMajors or [ ]);
    nativeInputs = args: lib.optionals args.cudaSupport (
      [ args.cudaPackages.cuda_nvcc ]
      ++ lib.optional args.cudaPackages.flags.isJetsonBuild args.cudaPackages.autoAddCudaCompatRunpath
    );
    # What a build for GPUs is of: through these, an overlay's change reaches torch, and through no others.
    inputs = args: lib.optionals args.cudaSupport (
      [ args.magma ]
      ++ map (member: args.cudaPackages.${member})
        [ "cuda_cccl" "cuda_cudart" "cuda_nvcc" "cudnn" "libcublas" "nccl" ]
    );
    extras = args: {
      inherit (args) cudaSupport cudaPackages;
      # Whatever `gpuTargets` says.
      cudaCapabilities = lib.optionals args.cudaSupport
        (lib.intersectLists args.cudaPackages.flags.cudaCapabilities (context.derivations.torch.cudaCapabilities or [ ]));
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

  # The GPU code of a package that uses torch is for torch's capabilities.
  code = { pname, args }:
    let
      capabilities = lib.concatStringsSep ";" (args.torch.cudaCapabilities or [ ]);
      support = args.torch.cudaSupport or false;
    in
    if pname == "torchaudio" then { env.TORCH_CUDA_ARCH_LIST = capabilities; }
    else {
      preConfigure = package.inherited + lib.optionalString support ''
        export TORCH_CUDA_ARCH_LIST="${capabilities}"
        export FORCE_CUDA=1
      '';
    };

  # The package set of the toolkit in what a package has, else of nixpkgs itself; and whether it is built for GPUs.
  toolkit = { effective, final }: effective.cudaPackages or final.cudaPackages;
  support = { effective, config }: effective.cudaSupport or (config.cudaSupport or false);
}
