# A recipe, and what it sees of nixpkgs in one attribute.
path: { ... }:
let
  inherit (builtins) attrNames baseNameOf filter isAttrs listToAttrs sort;
  one = import path { };
  file = value: if isAttrs value then value.name else baseNameOf (toString value);
  output = value: "${value.pname}.${value.outputName}";
  sorted = sort (a: b: a < b);
  filled = old: filter (name: old.${name} or "" != "") [
    "postPatch" "preConfigure" "preBuild" "preFixup" "postInstall" "postFixup"
  ];
  switches = lib.genAttrs [
    "BUILD_DOCS" "BUILD_NAMEDTENSOR" "BUILD_TEST" "CMAKE_GENERATOR" "USE_DISTRIBUTED" "USE_MKLDNN" "USE_MKLDNN_CBLAS"
    "USE_MPS" "USE_NCCL" "USE_NNPACK" "USE_STATIC_NCCL" "USE_SYSTEM_NCCL" "BUILD_CTC_DECODER" "BUILD_KALDI" "BUILD_RNNT"
    "BUILD_SOX"
  ] (_: null);
  lib.genAttrs = names: f: listToAttrs (map (name: { inherit name; value = f name; }) names);
  text = builtins.mapAttrs (_: toString);
  said = old: {
    inherit (one) outputs;
    "old.outputs" = old.outputs or null;
    "old variables of a build" = text (builtins.intersectAttrs switches old);
    "old.patches" = sorted (map file (old.patches or [ ]));
    "old phases that are not empty" = filled old;
    propagatedBuildInputs = sorted (map output one.propagatedBuildInputs);
    requiredPythonModules = sorted (map output (one.requiredPythonModules or [ ]));
    cudaCapabilities = one.cudaCapabilities or [ ];
    "meta.available" = one.meta.available;
    "meta.unfree" = one.meta.unfree;
    "meta.unsupported" = one.meta.unsupported;
  } // (if one.cudaSupport or false && one ? cudaPackages && one ? blasProvider then kit one.cudaPackages else { });
  kit = packages: {
    "flags.cudaCapabilities" = packages.flags.cudaCapabilities;
    "flags.isJetsonBuild" = packages.flags.isJetsonBuild;
    "flags.gencode" = packages.flags.gencode;
    "flags.cmakeCudaArchitecturesString" = packages.flags.cmakeCudaArchitecturesString;
    "nccl.meta.available" = packages.nccl.meta.available;
    "autoAddCudaCompatRunpath.enableHook" = packages.autoAddCudaCompatRunpath.enableHook;
    "autoAddCudaCompatRunpath among the inputs" =
      builtins.any (input: input.pname or "" == packages.autoAddCudaCompatRunpath.pname) one.nativeBuildInputs;
  };
in
one.overrideAttrs (old: { ciProbe = builtins.toJSON (said old); })
