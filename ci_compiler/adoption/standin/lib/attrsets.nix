# Functions on attribute sets.
{ lib }:
let
  inherit (builtins) attrNames concatMap elemAt filter foldl' head isAttrs length listToAttrs map tail;
  isDrv = v: v.type or null == "derivation";
in
rec {
  inherit (builtins)
    attrNames attrValues catAttrs getAttr hasAttr intersectAttrs listToAttrs mapAttrs removeAttrs zipAttrsWith;

  isDerivation = isDrv;
  nameValuePair = name: value: { inherit name value; };
  attrVals = wanted: set: map (name: set.${name}) wanted;
  attrByPath = path: default: set:
    if path == [ ] then set
    else if isAttrs set && set ? ${head path} then attrByPath (tail path) default set.${head path}
    else default;
  hasAttrByPath = path: set:
    path == [ ] || (isAttrs set && set ? ${head path} && hasAttrByPath (tail path) set.${head path});
  getAttrFromPath = path: attrByPath path (throw "cannot find attribute `${lib.concatStringsSep "." path}'");
  setAttrByPath = path: value: if path == [ ] then value else { ${head path} = setAttrByPath (tail path) value; };
  updateManyAttrsByPath = updates: set:
    foldl' (done: u: recursiveUpdate done (setAttrByPath u.path (u.update (attrByPath u.path null done)))) set updates;
  optionalAttrs = condition: set: if condition then set else { };
  genAttrs = wanted: f: listToAttrs (map (name: nameValuePair name (f name)) wanted);
  genAttrs' = list: f: listToAttrs (map f list);
  filterAttrs = predicate: set: removeAttrs set (filter (name: !(predicate name set.${name})) (attrNames set));
  filterAttrsRecursive = predicate: set:
    mapAttrs (_: v: if isAttrs v && !isDrv v then filterAttrsRecursive predicate v else v) (filterAttrs predicate set);
  mapAttrs' = f: set: listToAttrs (map (name: f name set.${name}) (attrNames set));
  mapAttrsToList = f: set: map (name: f name set.${name}) (attrNames set);
  attrsToList = mapAttrsToList nameValuePair;
  concatMapAttrs = f: set: mergeAttrsList (mapAttrsToList f set);
  mapAttrsRecursive = mapAttrsRecursiveCond (_: true);
  mapAttrsRecursiveCond = cond: f:
    let
      walk = path: mapAttrs (name: v:
        if isAttrs v && cond v then walk (path ++ [ name ]) v else f (path ++ [ name ]) v);
    in
    walk [ ];
  collect = predicate: v:
    if predicate v then [ v ] else if isAttrs v then concatMap (collect predicate) (builtins.attrValues v) else [ ];
  foldlAttrs = f: start: set: foldl' (done: name: f done name set.${name}) start (attrNames set);
  foldAttrs = op: start: sets: mapAttrs (_: lib.foldr op start) (zipAttrsWith (_: values: values) sets);
  mergeAttrsList = foldl' (a: b: a // b) { };
  zipAttrs = zipAttrsWith (_: values: values);
  zipAttrsWithNames = wanted: f: sets: genAttrs wanted (name: f name (builtins.catAttrs name sets));
  cartesianProduct = sets:
    foldl' (rows: name: concatMap (row: map (value: row // { ${name} = value; }) sets.${name}) rows)
      [ { } ]
      (attrNames sets);
  cartesianProductOfSets = cartesianProduct;
  mapCartesianProduct = f: sets: map f (cartesianProduct sets);
  recursiveUpdateUntil = stop: a: b:
    let
      walk = path: x: y: zipAttrsWith (name: values:
        let here = path ++ [ name ];
        in
        if length values == 1 || stop here (elemAt values 1) (head values) then head values
        else walk here (elemAt values 1) (head values)
      ) [ y x ];
    in
    walk [ ] a b;
  recursiveUpdate = recursiveUpdateUntil (_: a: b: !(isAttrs a && isAttrs b));
  matchAttrs = pattern: set:
    let
      fits = name: wanted:
        set ? ${name} && (if isAttrs wanted then matchAttrs wanted set.${name} else wanted == set.${name});
    in
    builtins.all (name: fits name pattern.${name}) (attrNames pattern);
  overrideExisting = old: new: mapAttrs (name: value: new.${name} or value) old;
  unionOfDisjoint = a: b: a // b;
  renameAttrs = names: set: mapAttrs' (name: value: nameValuePair (names.${name} or name) value) set;
  recurseIntoAttrs = set: set // { recurseForDerivations = true; };
  dontRecurseIntoAttrs = set: set // { recurseForDerivations = false; };
  toDerivation = path: path;
  getOutput = output: p: if !(p ? outputSpecified) || !p.outputSpecified then p.${output} or p.out or p else p;
  getBin = getOutput "bin";
  getLib = getOutput "lib";
  getDev = getOutput "dev";
  getMan = getOutput "man";
  getStatic = getOutput "static";
  getInclude = getOutput "include";
  getFirstOutput = outputs: p: p.${head outputs} or p;
  chooseDevOutputs = map getDev;
  showAttrPath = lib.concatStringsSep ".";
}
