# What there is to say of a recipe's value, as data for `toJSON`. The reader is ci_compiler/adoption/evaluation.py.
{ lib, package, pins, families }:
let
  inherit (builtins)
    attrNames concatMap filter isAttrs isFunction isList isPath length listToAttrs mapAttrs removeAttrs
    unsafeGetAttrPos;

  # Values of a recipe's own making can be of any size and shape: deep or wide ones are named, not shown.
  show = showTo 5;
  showTo = depth: value:
    if isAttrs value then
      if lib.isDerivation value then shownPackage value
      else if value ? __label then "<${value.__label}>"
      else if value ? __functor then "<function>"
      else if value ? outPath || value ? __toString then toString value
      else if depth == 0 || length (attrNames value) > 200 then "<set>"
      else mapAttrs (_: showTo (depth - 1)) value
    else if isList value then (if depth == 0 then "<list>" else map (showTo (depth - 1)) value)
    else if isFunction value then "<function>"
    else if isPath value then { path = toString value; }
    else if builtins.isString value then lib.replaceStrings [ package.inherited ] [ "" ] value
    else value;
  # A value that may be wrong without the package being wrong, as passthru may: nobody asks for it in a build.
  tried = value: quietly (show value);
  quietly = data:
    let whole = builtins.tryEval (builtins.deepSeq data data);
    in if whole.success then whole.value else "<error>";

  shownPackage = drv:
    if drv ? __record && drv.__record.package == "source" then { source = source drv; }
    else { derivation = drv.drvPath; name = drv.name or ""; };

  source = drv: {
    name = drv.name;
    fetcher = drv.__record.attribute;
    arguments = mapAttrs (_: show) (removeAttrs drv.__record.given [ "passthru" "meta" ]);
  };

  # Where attributes were written, for those that a recipe wrote: [ file line column ] by name.
  places = prefix: set:
    listToAttrs (concatMap (name:
      let at = unsafeGetAttrPos name set;
      in lib.optional (at != null) { name = prefix + name; value = [ at.file at.line at.column ]; }
    ) (attrNames set));

  # The packages that a package hands on to those that use it.
  propagated = final:
    filter lib.isDerivation (lib.flatten [ (final.propagatedBuildInputs or [ ]) (final.dependencies or [ ]) ]);

  # The other packages that a recipe changes: those that it gives to `override` or that are among its inputs, those of
  # the Python set, and those of overlays.
  isChanged = value:
    package.isRecorded value && value.__record.package != "source"
    && (value.__record.given != { } || value.__record.set != { });
  label = drv: if drv.__record.package == "other" then drv.pname else drv.__record.package;
  inputs = [
    "depsBuildBuild" "nativeBuildInputs" "buildInputs" "propagatedNativeBuildInputs" "propagatedBuildInputs"
    "build-system" "dependencies"
  ];
  handedIn = r: filter package.isRecorded (lib.flatten (lib.attrValues r.given ++ map (name: r.final.${name} or [ ]) inputs));
  ofSet = r: filter (name: !builtins.elem name [ r.package (lib.last (lib.splitString "." r.attribute)) ]) r.changes;
  ofOverlays = r:
    filter (name: let value = r.context.final.${name}; in package.isRecorded value && !(value ? pkgs))
      (lib.concatLists r.context.sets);
  changes = r: map label (filter isChanged (handedIn r)) ++ ofSet r ++ ofOverlays r;

  # Every package that a package is made of, as far as it shows; if its inputs are not known, also what its Python set
  # and its overlays change.
  reached = drv:
    let
      isOpen = drv.__record.package == "other" && !drv.__record.isMade;
      members = lib.optionals isOpen (map (name: drv.__record.scope.${name} or null) (ofSet drv.__record));
      overlaid = lib.optionals isOpen (map (name: drv.__record.context.final.${name}) (ofOverlays drv.__record));
      node = value: { key = builtins.unsafeDiscardStringContext value.drvPath; inherit value; };
      isNode = value: package.isRecorded value && value.__record.package != "source" && (builtins.tryEval value.drvPath).success;
    in
    map (one: one.value) (builtins.genericClosure {
      startSet = map node (filter isNode ([ drv ] ++ members ++ overlaid));
      operator = one: map node (filter isNode (handedIn one.value.__record));
    });

  # What an overlay's attribute has become.
  overlaid = value:
    if value ? __toolkit then { toolkit = value.__toolkit.attribute; inherit (value.__toolkit) version; }
    else if package.isRecorded value then
      { version = toString (value.version or ""); }
      // mapAttrs (_: show) (lib.filterAttrs (name: _: name == "src" || name == "patches") value.__record.final)
    else { };

  # `whole`: with what is inside, which is not looked into again.
  recorded = whole: drv:
    let
      r = drv.__record;
      context = r.context;
      final = r.final;
      handed = propagated final;
      torches = filter (p: p.__record.package or "" == "torch") handed;
      # The torch that it is built with: the one that `override` was given, or that it hands on in place of nixpkgs'.
      torch =
        if r.given ? torch then r.given.torch
        else if torches != [ ] then builtins.head torches
        else r.args.torch or null;
      # A package that uses torch has its toolkit from it.
      effective = if package.isRecorded torch then torch.__record.effective else r.effective;
      nodes = reached drv;
      inner = filter (value: isChanged value && !builtins.elem value.drvPath [ drv.drvPath (torch.drvPath or "") ]) nodes;
      toolkit = (families.toolkit { inherit effective; inherit (context) final; }).__toolkit or { attribute = ""; version = ""; };
    in
    {
      inherit (r) package attribute python;
      inherit (context) pin;
      # What the stand-in does not know of the package: "release" and "arguments", where the recipe depends on them, and
      # the "inputs" that nixpkgs has for a package that is made up here.
      unknown =
        lib.optional (!(pins.knows context.pin && context.versions ? ${r.package}) && !(r.set ? version)) "release"
        ++ lib.optional (!r.isChecked) "arguments"
        ++ lib.optional (r.package == "other" && !r.isMade) "inputs";
      config = show context.given;
      overlays = context.sets;
      overlaid = lib.genAttrs (lib.concatLists context.sets) (name: quietly (overlaid context.final.${name}));
      inherit toolkit;
      families = families.supported { inherit effective; inherit (context) config; };
      override = mapAttrs (_: show) r.given;
      changes = quietly (lib.unique (changes r));
      # Without the variables that are nixpkgs' own.
      attributes = mapAttrs (_: show)
        (removeAttrs final ([ "meta" "passthru" ] ++ lib.subtractLists (attrNames r.set) r.variables));
      set = attrNames r.set;
      passthru = mapAttrs (_: tried) (final.passthru or { });
      torch = if whole && lib.isDerivation torch then described false torch else null;
      inner = if whole then map (value: quietly (described false value)) inner else [ ];
      torches =
        if whole then lib.unique (map (value: value.drvPath) (filter (value: value.__record.package == "torch") nodes))
        else [ ];
      propagated_torch = map (p: p.drvPath) torches;
      propagated_outputs = map (one: (lib.getDev one).outputName) torches;
      places =
        places "" r.set
        // places "override." r.given
        // places "env." (if isAttrs (r.set.env or null) then r.set.env else { })
        // places "passthru." (final.passthru or { })
        // places "meta." (drv.meta or { })
        // places "config." context.given
        // places "nixpkgs." context.arguments;
    };

  described = whole: drv: {
    name = drv.name or "";
    pname = drv.pname or (lib.getName (drv.name or ""));
    version = toString (drv.version or "");
    drv_path = drv.drvPath;
    system = drv.system or "";
    meta = mapAttrs (_: tried) (removeAttrs (drv.meta or { }) [ "available" "insecure" "unfree" "unsupported" ]);
    record = if package.isRecorded drv then recorded whole drv else null;
  };
in
described true
