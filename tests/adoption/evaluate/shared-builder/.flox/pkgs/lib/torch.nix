# One builder for all variants
{ pkgs, lib ? pkgs.lib }:
{ gpu ? null, isa }:
let
  isas = import ./isas.nix;
  flags = lib.concatStringsSep " " isas.${isa}.flags;
  name = if gpu == null then "cpu" else "cuda12_8-sm${lib.replaceStrings [ "." ] [ "" ] gpu}";
  versions = lib.importJSON ./versions.json;
in
(pkgs.python3Packages.torch.override ({ cudaSupport = gpu != null; } // lib.optionalAttrs (gpu != null) { gpuTargets = [ gpu ]; })).overrideAttrs (finalAttrs: prev: {
  pname = "pytorch-python313-${name}-${isa}";
  version = versions.torch;
  requiredSystemFeatures = [ "big-parallel" ];
  preConfigure = ''
    export CXXFLAGS="${flags} $CXXFLAGS"
    export MAX_JOBS=${toString versions.jobs}
  '' + prev.preConfigure;
  passthru = prev.passthru // { variant = finalAttrs.pname; };
  meta = prev.meta // { platforms = [ isas.${isa}.system ]; };
})
