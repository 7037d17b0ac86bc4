# The driver's entry: evaluates the recipes of a batch one after the other and says on standard error, a line each,
# what happens, so that whatever ends the evaluation is known to be the fault of the recipe begun last.
#
#   trace: <tag> {"event":"begin","recipe":7}
#   trace: <tag> {"event":"import","path":"/…/lib/torch.nix"}      also read, fetch, source, nixpkgs
#   trace: <tag> {"event":"end","recipe":7,"value":{…}}            what record.nix says of it
#
# `batch` is a JSON file:
#   tag, recipes: [ { number; path; } ]
#   siblings: the folder's recipes, path by package name
#   names, members: what the recipes mention (ci_compiler/recipes/identifiers.py)
#   tarballs: folder by beginning of the address
#   known: the Nix file with what is known of nixpkgs (pins.nix)
{ batch }:
let
  given = builtins.fromJSON (builtins.readFile batch);
  set = list: builtins.listToAttrs (map (name: { inherit name; value = null; }) list);

  say = event: data: builtins.trace "${given.tag} ${builtins.toJSON ({ inherit event; } // data)}";
  lib = import ./lib {
    names = given.names;
    inherit (pins) unfree;
    readFile = path: say "read" { path = toString path; } (builtins.readFile path);
  };
  package = import ./package.nix { inherit lib; };
  pins = import ./pins.nix { inherit (given) known; };
  names = set given.names;
  # Functions of the library are no packages.
  members = removeAttrs (set given.members) (builtins.attrNames lib);
  families = import ./families.nix pins.families { inherit lib package members names; };
  nixpkgs = import ./nixpkgs.nix {
    inherit lib package pins names members families;
    importer = scope.import;
    note = say;
  };
  scope = import ./scope.nix {
    inherit lib nixpkgs;
    inherit (given) tarballs;
    note = say;
  };
  describe = import ./record.nix { inherit lib package pins families; };
  ambient = nixpkgs { pin = ""; path = scope.ambientPath; } { };

  # A recipe that is a function gets its arguments from nixpkgs, as from `callPackage`; one that asks for a recipe of
  # the same folder by its name gets that one, and nixpkgs' by its own name; and one that takes anything (`pkgs: …`)
  # gets nixpkgs.
  called = own: value:
    if !lib.isFunction value then value
    else if builtins.isFunction value && builtins.match ".*<varpat .*" (builtins.toXML value) != null then value ambient
    else
      let
        others = lib.filterAttrs (_: path: path != own) given.siblings;
        wanted = builtins.intersectAttrs (lib.functionArgs value) others;
        foreign = lib.filterAttrs (name: _: !(ambient ? ${name}) || ambient.__invented ? ${name}) wanted;
      in
      ambient.callPackage value (builtins.mapAttrs (_: path: called path (scope.import path)) foreign);

  result = path:
    let
      value = called path (scope.import path);
      kind = if lib.isFunction value then "function" else builtins.typeOf value;
    in
    if lib.isDerivation value then describe value else throw "the recipe gives a value of type ${kind}, not a package";

  step = done: recipe:
    say "begin" { recipe = recipe.number; } (
      let value = result recipe.path;
      in say "end" { recipe = recipe.number; inherit value; } (done + 1)
    );
in
builtins.foldl' step 0 given.recipes
