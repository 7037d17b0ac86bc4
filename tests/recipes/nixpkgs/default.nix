# A nixpkgs of few packages, whose functions take exactly the arguments that nixpkgs' own take, and whose derivations
# record what they were built with. As in nixpkgs, an argument that a function does not have is an error.
{
  system,
  config ? { },
  overlays ? [ ],
}:
let
  inherit (builtins)
    attrNames
    concatStringsSep
    filter
    foldl'
    functionArgs
    intersectAttrs
    isFunction
    listToAttrs
    removeAttrs
    toJSON
    ;

  lib = {
    inherit concatStringsSep;
    concatMapStringsSep = separator: function: items: concatStringsSep separator (map function items);
    unique = foldl' (seen: one: if builtins.elem one seen then seen else seen ++ [ one ]) [ ];
    getBin = package: package.bin or package;
    optionals = condition: items: if condition then items else [ ];
    optionalAttrs = condition: set: if condition then set else { };
    hasPrefix = prefix: text: builtins.substring 0 (builtins.stringLength prefix) text == prefix;
    splitString = separator: text: filter builtins.isString (builtins.split separator text);
    cmakeFeature = name: value: "-D${name}:STRING=${value}";
    cmakeBool = name: value: "-D${name}:BOOL=${if value then "TRUE" else "FALSE"}";
  };

  settings = {
    cudaSupport = false;
    rocmSupport = false;
    allowBroken = false;
  }
  // config;

  mkDerivation =
    given:
    let
      attrs = if isFunction given then given final else given;
      final = attrs // {
        inherit (attrs) pname version;
      };
      drv = derivation {
        name = "${attrs.pname}-${attrs.version}";
        inherit system;
        builder = "/bin/sh";
        attributes = toJSON (
          removeAttrs attrs [
            "meta"
            "passthru"
          ]
        );
      };
    in
    attrs
    // (attrs.passthru or { })
    // listToAttrs (
      map (output: {
        name = output;
        value = {
          inherit (drv) type drvPath outPath;
          outputName = output;
        };
      }) (attrs.outputs or [ ])
    )
    // {
      inherit (drv) type drvPath outPath;
      recorded = removeAttrs attrs [ "passthru" ];
      overrideAttrs = change: mkDerivation (attrs // change attrs);
    };

  makeOverridable =
    function: arguments:
    let
      made = function arguments;
      again =
        new: makeOverridable function (arguments // (if isFunction new then new arguments else new));
    in
    made
    // {
      override = again;
      overrideAttrs = change: makeOverridable (given: (function given).overrideAttrs change) arguments;
    };

  stub = name: mkDerivation {
    pname = name;
    version = "0";
  };

  # Required arguments that the set does not have are packages that nobody looks into.
  callWith =
    scope: path: arguments:
    let
      function = import path;
      wanted = functionArgs function;
      stubs = listToAttrs (
        map (name: {
          inherit name;
          value = stub name;
        }) (filter (name: !wanted.${name}) (attrNames wanted))
      );
    in
    makeOverridable function (stubs // intersectAttrs wanted scope // arguments);

  capabilities =
    settings.cudaCapabilities or [
      "8.0"
      "9.0"
    ];
  numbers = map (one: builtins.replaceStrings [ "." ] [ "" ] one) capabilities;
  cudaOf = version: {
    cudaMajorMinorVersion = version;
    backendStdenv = { inherit mkDerivation; };
    cuda_cuobjdump = stub "cuda_cuobjdump";
    nccl = mkDerivation {
      pname = "nccl";
      version = "0";
      inherit capabilities;
    };
    cuda_nvcc = stub "cuda_nvcc";
    flags = {
      cudaCapabilities = capabilities;
      cmakeCudaArchitecturesString = concatStringsSep ";" numbers;
      realArches = map (number: "sm_${number}") numbers;
    };
  };

  # As in pkgs/development/rocm-modules/default.nix: the members of a scope are built for the targets of its `clr`.
  rocmScope =
    overlay:
    let
      base = self: {
        clr = makeOverridable (
          {
            localGpuTargets ? null,
          }:
          mkDerivation {
            pname = "clr";
            version = "6.4.3";
            inherit localGpuTargets;
            passthru.gpuTargets = [ "gfx90a" "gfx942" "gfx1100" ];
          }
        ) { };
        rocblas = mkDerivation {
          pname = "rocblas";
          version = "6.4.3";
          targets = if self.clr.recorded.localGpuTargets == null then self.clr.gpuTargets else self.clr.localGpuTargets;
        };
      };
      self = base self // overlay self (base self);
    in
    self // { overrideScope = rocmScope; };

  pythonSet =
    final:
    let
      call = callWith (final // self // { inherit lib; });
      base = self: {
        python.pythonVersion = "3.13";
        buildPythonPackage = mkDerivation;
        torch = call ./torch.nix { };
        torchvision = call ./torchvision.nix { };
        torchaudio = call ./torchaudio.nix { };
        xformers = call ./xformers.nix { };
        flash-attn = call ./flash-attn.nix { };
        vllm = call ./vllm.nix { };
        jaxlib = call ./jaxlib.nix { };
        jaxlib-build = self.jaxlib;
        onnxruntime = call ./python-onnxruntime.nix {
          onnxruntime = final.onnxruntime.override { pythonSupport = true; };
        };
      };
      layered = foldl' (below: extend: below // extend self below) (base self) final.pythonPackagesExtensions;
      self = layered;
    in
    self;

  known = final: {
    inherit lib system;
    pkgs = final;
    config = settings;
    stdenv = {
      inherit mkDerivation;
      hostPlatform.isDarwin = false;
    };
    cudaPackages = cudaOf "12.6";
    cudaPackages_12_4 = cudaOf "12.4";
    cudaPackages_12_8 = cudaOf "12.8";
    rocmPackages = rocmScope (_: _: { });
    zstd = stub "zstd";
    pythonPackagesExtensions = [ ];
    python312Packages = pythonSet final;
    python313Packages = pythonSet final;
    llama-cpp = callWith final (if settings.rocmSupport then ./llama-cpp-rocm.nix else ./llama-cpp.nix) { };
    onnxruntime = callWith final ./onnxruntime.nix { };
  };
  final = foldl' (below: overlay: below // overlay final below) (known final) overlays;
in
final
