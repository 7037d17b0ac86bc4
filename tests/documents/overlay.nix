# What users get through the overlay and the flake, and what the recipes evaluate to, both with the stand-in for nixpkgs.
#
#   standin, names, members, known   as in ci_compiler/adoption/standin/main.nix
#   folder    what `ci-compile overlay` wrote
#   recipes   the folder of the recipes of each branch
#   tarballs  the folders that stand in for other repositories, by the beginning of their URL
{ standin, names, members, known, folder, recipes, tarballs }:
let
  set = list: builtins.listToAttrs (map (name: { inherit name; value = null; }) list);
  pins = import (standin + "/pins.nix") { known = toString known; };
  lib = import (standin + "/lib") { inherit names; inherit (pins) unfree; inherit (builtins) readFile; };
  package = import (standin + "/package.nix") { inherit lib; };
  own = { inherit lib package; names = set names; members = removeAttrs (set members) (builtins.attrNames lib); };
  families = import (standin + "/families.nix") pins.families own;
  nixpkgs = import (standin + "/nixpkgs.nix") {
    inherit lib package pins families;
    inherit (own) names members;
    importer = scope.import;
    note = _: _: value: value;
  };
  scope = import (standin + "/scope.nix") { inherit lib nixpkgs tarballs; note = _: _: value: value; };
  load = scope.import;

  cells = (load (folder + "/fleet.nix")).variants;
  users = system: overlays: nixpkgs { pin = ""; path = scope.ambientPath; } { inherit system overlays; };
  flake = (load (folder + "/flake.nix")).outputs {
    nixpkgs.legacyPackages = lib.genAttrs [ "x86_64-linux" "aarch64-linux" ] (system: users system [ ]);
  };

  # A user who asks for everything, and one who asks for a GPU and an ISA.
  all = lib.genAttrs [ "x86_64-linux" "aarch64-linux" ] (system:
    (users system [ (load (folder + "/overlay.nix") { }) ]).fleetPackages);
  one = (users first.system [ (load (folder + "/overlay.nix") { inherit (first) gpu isa; }) ]).fleetPackages;

  # The three packages of a cell, chosen together.
  key = row: "${row.branch} ${row.python} ${row.toolkit} ${row.gpu} ${row.isa}";
  chosen = builtins.listToAttrs (map (row: {
    name = key row;
    value = all.${row.system}.choose { inherit (row) branch toolkit gpu isa python system; };
  }) cells);
  paths = row: {
    inherit (row) name branch;
    recipe = (load (recipes.${row.branch} + "/${row.name}.nix") { }).drvPath;
    overlay = chosen.${key row}.${row.attribute}.drvPath;
  };

  first = builtins.head cells;
  last = lib.last cells;
  app = flake.apps.${first.system}."check-${first.name}";
in
{
  variants = map paths cells;
  flake = {
    branch = flake.legacyPackages.${first.system}.${last.branch}.${last.name}.drvPath;
    newest = flake.packages.${first.system}.${first.name}.drvPath;
  };
  environment = map (package: package.drvPath) one.environment.drvAttrs.paths;
  inherit (app) program;
  cached = flake.apps.${first.system} ? "cached-${first.name}";
}
