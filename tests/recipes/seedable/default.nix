# A nixpkgs with one package, compiled by this machine's compiler: `builder.sh` runs the phases of stdenv. The compiler's
# wrapper appends NIX_CFLAGS_COMPILE, as that of nixpkgs does. Without a sandbox, every build has another folder, so the
# sources are compiled where they are in the store.
{
  system,
  config ? { },
  overlays ? [ ],
}:
let
  inherit (builtins) concatStringsSep foldl' getEnv map removeAttrs toFile;
  lib = {
    inherit concatStringsSep;
    concatMapStringsSep = separator: function: items: concatStringsSep separator (map function items);
    unique = list: list;
    getBin = package: package;
  };
  mkDerivation =
    attrs:
    let
      drv = derivation (
        removeAttrs attrs [ "meta" "passthru" "requiredSystemFeatures" "propagatedBuildInputs" ]
        // {
          inherit system;
          name = "${attrs.pname}-${attrs.version}";
          builder = "/bin/bash";
          args = [ ./builder.sh ];
          wrapper = ./wrapper;
          src = ./source;
          PATH = getEnv "PATH";
        }
      );
    in
    drv
    // (attrs.passthru or { })
    // { overrideAttrs = change: mkDerivation (attrs // change attrs); };
  overridable =
    function: arguments: function arguments // { override = new: overridable function (arguments // new); };
  engine =
    { targets ? [ ] }:
    mkDerivation {
      pname = "engine";
      version = "1.0";
      TARGETS = concatStringsSep " " targets;
    };
in
foldl' (below: overlay: below // overlay below below) {
  inherit lib;
  ccache = getEnv "CCACHE_OF_THE_TEST";
  cudaPackages.cuda_cuobjdump = "/none";
  cudaPackages_12_8.cuda_cuobjdump = "/none";
  engine = overridable engine { };
} overlays
