# Fixed points, overlays and `override`.
{ lib }:
let
  inherit (builtins) intersectAttrs isAttrs;
in
rec {
  fix = f: let x = f x; in x;
  fix' = f: let x = f x // { __unfix__ = f; }; in x;
  extends = overlay: f: final: let prev = f final; in prev // overlay final prev;
  composeExtensions = f: g: final: prev: let new = f final prev; in new // g final (prev // new);
  composeManyExtensions = lib.foldr composeExtensions (_: _: { });
  toExtension = f: final: prev:
    let once = if lib.isFunction f then f prev else f;
    in if lib.isFunction once then f final prev else once;
  makeExtensible = makeExtensibleWithCustomName "extend";
  makeExtensibleWithCustomName = name: f:
    fix' (self: f self // { ${name} = overlay: makeExtensibleWithCustomName name (extends overlay f); });
  converge = f: x: let next = f x; in if next == x then x else converge f next;

  # `override` calls the function again with other arguments; what it gives keeps its own `overrideAttrs`.
  makeOverridable = f: args:
    let
      result = f args;
      again = new: makeOverridable f (args // (if lib.isFunction new then new args else new));
      through = how: change: makeOverridable (given: (f given).${how} change) args;
    in
    if isAttrs result then
      result
      // { override = again; overrideDerivation = through "overrideAttrs"; }
      // lib.optionalAttrs (result ? overrideAttrs) { overrideAttrs = through "overrideAttrs"; }
      // lib.optionalAttrs (result ? overridePythonAttrs) { overridePythonAttrs = through "overridePythonAttrs"; }
    else if lib.isFunction result then lib.setFunctionArgs result (lib.functionArgs result) // { override = again; }
    else result;

  callPackageWith = scope: recipe: args:
    let
      f = if lib.isFunction recipe then recipe else scope.__import recipe;
      wanted = lib.functionArgs f;
      # An argument with a default keeps it, unless the package set really has the attribute.
      found = builtins.removeAttrs (intersectAttrs wanted scope)
        (builtins.filter (name: wanted.${name} && (scope.__invented or { }) ? ${name}) (builtins.attrNames wanted));
    in
    if lib.isFunction f then makeOverridable f (found // args) else f;
  callPackagesWith = callPackageWith;
  makeScope = newScope: f:
    let
      self = f self // {
        newScope = extra: newScope (self // extra);
        callPackage = self.newScope { };
        overrideScope = overlay: makeScope newScope (extends overlay f);
        packages = f;
      };
    in
    self;
  makeScopeWithSplicing' = { otherSplices ? null, newScope, ... }: { f, ... }: makeScope newScope f;
  overrideDerivation = drv: drv.overrideAttrs;
  extendDerivation = _: passthru: drv: drv // passthru;
  hydraJob = drv: drv;
  packagesFromDirectoryRecursive = _: throw "packagesFromDirectoryRecursive is not in the stand-in";
}
