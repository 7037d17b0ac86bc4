# What recipes evaluate to with nixpkgs' own functions, in the form of standin/record.nix: see differential.py.
{ evaluate, batch }:
let
  inherit (builtins) isAttrs isBool isFunction isList isPath mapAttrs removeAttrs toString tryEval;
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
  describe = drv: {
    inherit (drv) name pname system;
    version = toString drv.version;
    drv_path = builtins.unsafeDiscardStringContext drv.drvPath;
    meta = mapAttrs (_: tried) (drv.meta or { });
    record = {
      attributes = mapAttrs (_: show) (removeAttrs drv.drvAttrs [ "src" "srcs" ]) // { src = show (drv.src or null); };
      passthru = mapAttrs (_: tried) (drv.passthru or { });
      propagated_outputs = map (one: one.outputName)
        (builtins.filter (one: isAttrs one && one ? cudaCapabilities) drv.propagatedBuildInputs);
    };
  };
in
mapAttrs (_: describe) (import evaluate { inherit batch; }).jobs
