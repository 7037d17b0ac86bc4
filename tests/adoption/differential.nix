# What recipes evaluate to with nixpkgs' own functions, in the form of standin/record.nix: see differential.py.
{ evaluate, batch }:
let
  inherit (builtins) concatMap filter genericClosure isAttrs isFunction isList isPath mapAttrs removeAttrs toString tryEval;
  show = value:
    if isAttrs value then
      if value.type or "" == "derivation" then shown value
      else if value ? outPath || value ? __toString then toString value
      else "<set>"
    else if isList value then map show value
    else if isFunction value then "<function>"
    else if isPath value then { path = toString value; }
    else value;
  shown = drv:
    if drv ? owner && drv ? repo || drv ? url then
      { source = { inherit (drv) name; fetcher = ""; arguments = mapAttrs (_: show) (fetched drv); }; }
    else { derivation = drv.name; inherit (drv) name; };
  fetched = drv:
    let
      kept = builtins.intersectAttrs { url = 0; owner = 0; repo = 0; rev = 0; tag = 0; fetchSubmodules = 0; } drv;
    in
    kept // { hash = drv.hash or drv.outputHash or ""; };
  tried = value:
    let
      data = show value;
      whole = tryEval (builtins.deepSeq data data);
    in
    if whole.success then whole.value else "<error>";
  isDerivation = value: isAttrs value && value.type or "" == "derivation";
  flatten = value: if isList value then concatMap flatten value else [ value ];
  path = drv: builtins.unsafeDiscardStringContext drv.drvPath;
  # Every package that a package is built with, at any depth.
  reached = drv: map (one: one.drv) (genericClosure {
    startSet = [ { key = path drv; inherit drv; } ];
    operator = one: map (drv: { key = path drv; inherit drv; }) (filter isDerivation (flatten (map (name: one.drv.${name} or [ ]) [
      "depsBuildBuild" "nativeBuildInputs" "buildInputs" "propagatedNativeBuildInputs" "propagatedBuildInputs"
    ])));
  });
  # What nixpkgs refuses, such as a broken package, has no data.
  described = drv:
    let
      data = describe drv;
      whole = tryEval (builtins.deepSeq data data);
    in
    if whole.success then whole.value else null;
  describe = drv: let inside = reached drv; in {
    inherit (drv) name pname system;
    version = toString drv.version;
    drv_path = path drv;
    meta = mapAttrs (_: tried) (drv.meta or { });
    record = {
      attributes = mapAttrs (_: show) (removeAttrs drv.drvAttrs [ "src" "srcs" ]) // { src = show (drv.src or null); };
      passthru = mapAttrs (_: tried) (drv.passthru or { });
      torches = map path (filter (one: one ? cudaCapabilities && one ? blasProvider) inside);
      toolkit = {
        attribute = "";
        version = builtins.head (map (one: one.version) (filter (one: one.pname or "" == "cuda_cudart") inside) ++ [ "" ]);
      };
      propagated_outputs = map (one: one.outputName)
        (filter (one: isAttrs one && one ? cudaCapabilities) drv.propagatedBuildInputs);
    };
  };
in
mapAttrs (_: described) (import evaluate { inherit batch; }).jobs
