# nixpkgs as far as the package of ci-compiler can tell: functions that take exactly what nixpkgs' own take (a name that
# nixpkgs does not have is an error), and a derivation that needs nothing. NAME and FLAKE are paths of this repository.
{ root, system }:
let
  inherit (builtins) attrNames functionArgs intersectAttrs isPath isString toString;
  made = name: derivation { inherit name system; builder = "/bin/sh"; };
  python3Packages = {
    buildPythonApplication =
      {
        pname, version, pyproject, src, build-system, dependencies, makeWrapperArgs, pythonImportsCheck, meta,
      }:
      assert pyproject && meta.mainProgram == "ci-compile";
      derivation {
        name = "${pname}-${version}";
        inherit system version;
        builder = "/bin/sh";
        dependencies = map (one: one.name) dependencies;
        built = map (one: one.name) build-system;
        wraps = makeWrapperArgs;
        imports = pythonImportsCheck;
        files = src;
      };
  }
  // builtins.listToAttrs (
    map (name: { inherit name; value = made name; })
      [ "hatchling" "cyclonedx-python-lib" "jsonschema" "pygithub" "pyyaml" "rich" "ruamel-yaml" ]
  );
  lib = {
    licenses.mit = "MIT";
    platforms.unix = [ system ];
    fileset = {
      unions = files: map (file: assert builtins.pathExists file; toString file) files;
      toSource = { root, fileset }: builtins.concatStringsSep " " fileset;
    };
  };
  packages = { inherit lib python3Packages callPackage; git = made "git"; };
  callPackage =
    file: arguments:
    let package = import file;
    in package (intersectAttrs (functionArgs package) packages // arguments);
  nixpkgs.legacyPackages = builtins.listToAttrs (
    map (name: { inherit name; value = packages; })
      [ "aarch64-darwin" "aarch64-linux" "x86_64-darwin" "x86_64-linux" ]
  );
  flake = (import (root + "/.nix/flake.nix")).outputs { inherit nixpkgs; self = { }; };
  shown = one: { inherit (one) name version dependencies built wraps imports files drvPath; };
in
{
  package = shown (callPackage (root + "/.nix/package.nix") { });
  default = (import (root + "/.nix") { pkgs = packages; }).drvPath;
  flox = (callPackage (root + "/.flox/pkgs/ci-compiler") { }).drvPath;
  flake = builtins.mapAttrs (_: one: one.default.drvPath) flake.packages;
  apps = builtins.mapAttrs (_: one: builtins.mapAttrs (_: app: baseNameOf app.program) one) flake.apps;
  overlay = (flake.overlays.default packages { }).ci-compiler.drvPath;
}
