# What recipes evaluate to with the true nixpkgs: as jobs for nix-eval-jobs, or as two lines on standard error for each
# (`trace: <tag> {…}`, when it begins and when it ends), which ci_compiler/adoption/real_nixpkgs.py reads; and their
# sources, patched, to build.
#
# `batch` is a JSON file:
#   tag, recipes: path by name
#   wanted: the names of those to evaluate, each with the names of packages inside it to patch
#   nixpkgs: the folder to use in place of every nixpkgs that recipes fetch; "" for those that they fetch
#   pin: the nixpkgs that a recipe with arguments is called with, as the arguments of fetchTarball
#   system: the platform of that one
{ batch }:
let
  inherit (builtins) attrNames elem filter functionArgs intersectAttrs isAttrs isFunction isList isString mapAttrs match;
  given = builtins.fromJSON (builtins.readFile batch);
  isReplaced = given.nixpkgs != "";
  folder = toString (/. + given.nixpkgs);

  # In place of fetchers and imports, where a folder replaces nixpkgs. Files of nixpkgs are imported as usual, which
  # Nix caches.
  isNixpkgs = url:
    match ".*[/:][Nn]ix[Pp]kgs(-channels)?(\\.git)?([/?].*)?" url != null
    || match "https?://((channels|releases)\\.)?nixos\\.org/.*nixexprs\\.tar\\..*" url != null;
  urlOf = args:
    if isString args then args
    else if args ? url then toString args.url
    else "https://github.com/${args.owner or ""}/${args.repo or ""}";
  instead = fetch: args: if isNixpkgs (urlOf args) then folder else fetch args;
  inFolder = path:
    let start = builtins.substring 0 (builtins.stringLength folder + 1) (toString path);
    in start == folder || start == folder + "/";
  fetchers = {
    fetchTarball = instead builtins.fetchTarball;
    fetchGit = args: if isNixpkgs (urlOf args) then { outPath = folder; } else builtins.fetchGit args;
  };
  scope = fetchers // {
    import = imported;
    builtins = builtins // fetchers // { import = imported; };
  };
  imported = path: if inFolder path then import path else builtins.scopedImport scope path;
  read = path: if isReplaced then imported path else import path;

  pkgs = import (if isReplaced then folder else builtins.fetchTarball given.pin) {
    inherit (given) system;
    config.allowUnfree = true;
  };
  # Arguments are those of `callPackage`, and the repository's other recipes, by name.
  called = path:
    let
      value = read path;
      wanted = functionArgs value;
      siblings = mapAttrs (_: called) (intersectAttrs wanted (removeAttrs given.recipes (attrNames pkgs)));
    in
    if !isFunction value then value
    else if filter (name: !wanted.${name}) (attrNames wanted) == [ ] then value { }
    else pkgs.callPackage value siblings;

  # The attributes that ci_compiler/adoption/judged.py reads, as the build's environment has them.
  phases = [
    "postUnpack" "prePatch" "patchPhase" "postPatch" "preConfigure" "configurePhase" "postConfigure" "preBuild"
    "buildPhase" "version"
  ];
  # What the source is before the build begins, which ci_compiler/adoption/patching.py reads.
  sources = [ "src" "srcs" "sourceRoot" "patches" "patchFlags" ];
  isRead = name: elem name (phases ++ sources) || match "[A-Z][A-Z0-9_]*" name != null;
  text = value:
    if value == null || value == false then ""
    else if value == true then "1"
    else if isList value then builtins.concatStringsSep " " (map text value)
    else if isAttrs value && !(value ? outPath || value ? __toString) then ""
    else toString value;
  plain = value: builtins.unsafeDiscardStringContext (text value);
  describe = drv:
    let all = drv.drvAttrs // (if drv.__structuredAttrs or false then drv.drvAttrs.env or { } else { });
    in {
      path = plain drv.drvPath;
      inherit (drv) system;
      outputs = builtins.listToAttrs (
        map (name: { inherit name; value = plain drv.${name}.outPath; }) (drv.outputs or [ "out" ])
      );
      attributes = mapAttrs (_: plain) (builtins.listToAttrs (
        map (name: { inherit name; value = all.${name}; }) (filter isRead (attrNames all))
      ));
    };

  # A package of which the source is unpacked and patched, and nothing else is done. What later phases read is left out,
  # since what it refers to would be built first.
  isLater = name:
    match "(pre|post)(Configure|Build|Check|Install|InstallCheck|Fixup|Dist)" name != null
    || match "(configure|build|check|install|installCheck|fixup|dist)Phase" name != null
    || (match ".*Flags(Array)?" name != null && name != "patchFlags");
  onlyPatched = drv: drv.overrideAttrs (old: builtins.listToAttrs (
    map (name: { inherit name; value = null; }) (filter isLater (attrNames old))
  ) // {
    phases = [ "unpackPhase" "patchPhase" "leavePhase" ];
    leavePhase = "mkdir -p $out";
    outputs = [ "out" ];
    buildInputs = [ ];
    propagatedBuildInputs = [ ];
    requiredSystemFeatures = [ ];
  });
  inputsOf = drv: filter (one: isAttrs one && one.type or "" == "derivation") (flatten (map (name: drv.${name} or [ ]) [
    "depsBuildBuild" "nativeBuildInputs" "buildInputs" "propagatedNativeBuildInputs" "propagatedBuildInputs"
  ]));
  flatten = value: if isList value then builtins.concatMap flatten value else [ value ];
  # The packages called `name` that a package is built with, at any depth, unpacked and patched.
  inside = name: drv:
    let
      item = drv: { key = plain drv.drvPath; inherit drv; };
      all = builtins.genericClosure { startSet = [ (item drv) ]; operator = one: map item (inputsOf one.drv); };
      found = filter (one: one.pname or "" == name) (map (one: one.drv) (builtins.tail all));
    in
    if found == [ ] then throw "nothing called ${name} is among its inputs" else map onlyPatched found;
  result = name: path:
    let value = called path;
    in
    if isAttrs value && value.type or "" == "derivation" then describe value
    else throw "the recipe gives a value of type ${builtins.typeOf value}, not a package";
in
{
  jobs = mapAttrs (_: called) (intersectAttrs given.wanted given.recipes);
  patched = mapAttrs (name: path:
    let package = called path; in
    { own = onlyPatched package; inside = mapAttrs (inner: _: inside inner package) given.wanted.${name}; }
  ) (intersectAttrs given.wanted given.recipes);
  described = mapAttrs (name: path:
    builtins.trace "${given.tag} ${builtins.toJSON { inherit name; value = null; }}" (
      builtins.trace "${given.tag} ${builtins.toJSON { inherit name; value = result name path; }}" null
    )
  ) (intersectAttrs given.wanted given.recipes);
}
