# One package of the stand-in: a real derivation that remembers how a recipe came by it.
#
# A package is made from a `spec`:
#   package     what it is at heart: "torch", "torchvision", "torchaudio", "source", or "other"
#   attribute   the attribute path that it was reached through, as `python3Packages.torch`
#   context     the nixpkgs that it belongs to: { pin; system; config; ... } (nixpkgs.nix)
#   arguments   the arguments that `override` knows, with their defaults
#   given       what `override` was given
#   function    a function with the parameters of nixpkgs' own, which returns its arguments; null if they are unknown
#   attrs       arguments -> the attributes that it starts from
#   layers      what `overrideAttrs` was given, in order
#   extras      attributes of the result that no builder sees
#   finish      the same, from the attributes before any `overrideAttrs` (those that a builder was given)
#   prefix      what its builder puts before its name, which later layers see; null for a builder that sets no name
#   hasDist     the attributes that the builder was given -> whether it adds the output `dist`; null if it sets none
#   isOpen      whether it is made up, so that it may have any output
#   changes     the names that a recipe or an overlay sets in the Python set that it is from
#   scope       that Python set
#
# The derivation path follows from what the build would see: the pin, the system, the part of the configuration that
# changes builds, the arguments and the final attributes; `meta` and `passthru` change nothing, as in nixpkgs.
{ lib }:
let
  inherit (builtins) filter foldl' isAttrs isFunction isList mapAttrs removeAttrs toJSON;

  # Attributes that every package has, so that `old.patches ++ [ … ]` works without an `or`. They are empty unless it is
  # known what nixpkgs has in them. `requiredSystemFeatures` and `ninjaFlags` are not there, so that a recipe that leaves
  # them to nixpkgs is seen to do so.
  blank = {
    patches = [ ];
    postPatch = "";
    preConfigure = "";
    postConfigure = "";
    preBuild = "";
    postBuild = "";
    preInstall = "";
    postInstall = "";
    preFixup = "";
    postFixup = "";
    cmakeFlags = [ ];
    nativeBuildInputs = [ ];
    buildInputs = [ ];
    propagatedBuildInputs = [ ];
    env = { };
    passthru = { };
    doCheck = false;
  };

  # A value as `toJSON` can take it: functions are named, package sets stand for themselves by their label, and
  # derivations and paths stay, so that what they refer to enters the derivation path.
  plain = value:
    if isAttrs value then
      if lib.isDerivation value then value.outPath
      else if value ? __label then value.__label
      else if value ? __functor then "<function>"
      else mapAttrs (_: plain) value
    else if isList value then map plain value
    else if isFunction value then "<function>"
    else value;

  # Settings that only permit something; nothing is built differently for them.
  permissive = name:
    lib.hasPrefix "allow" name || lib.hasPrefix "permitted" name || builtins.elem name [ "checkMeta" "warnings" ];

  # The arguments that a build sees beyond its inputs: sets of packages act through their members, and an input that
  # the package knows acts through its attributes (a CPU build does not change with MAGMA).
  seen = spec: args:
    lib.filterAttrs (name: value: !(value ? __label) && !(lib.isDerivation value && spec.arguments ? ${name})) args;

  # In place of what nixpkgs' own derivation has in a phase, which a record does not show.
  inherited = "# As in nixpkgs.\n";

  # stdenv takes the `dev` output of each input, unless an output was chosen: nixpkgs, stdenv/generic/make-derivation.nix.
  inputNames = lib.genAttrs [
    "depsBuildBuild" "nativeBuildInputs" "buildInputs" "propagatedNativeBuildInputs" "propagatedBuildInputs"
  ] (_: null);
  asInput = value:
    if isList value then map asInput value else if lib.isDerivation value then lib.getDev value else value;

  # What nixpkgs says of a package beside its own `meta`: stdenv/generic/check-meta.nix.
  judged = { system, config, ... }: meta:
    let
      toList = value: if isList value then value else [ value ];
      unfree = builtins.any (one: !(one.free or true)) (toList (meta.license or [ ]));
      unsupported =
        !builtins.elem system (meta.platforms or [ system ]) || builtins.elem system (meta.badPlatforms or [ ]);
      insecure = meta.knownVulnerabilities or [ ] != [ ];
    in
    {
      inherit unfree unsupported insecure;
      available =
        (config.allowBroken or false || !(meta.broken or false))
        && (config.allowUnfree or false || !unfree)
        && (config.allowUnsupportedSystem or false || !unsupported)
        && !insecure;
    } // meta;

  # The outputs that a package is taken to have whose outputs are not known.
  outputNames = [ "dev" "lib" "bin" "man" "doc" "static" "include" "dist" "cxxdev" ];

  make = given:
    let
      spec = {
        package = "other";
        python = "";
        arguments = { };
        given = { };
        function = null;
        layers = [ ];
        changes = [ ];
        scope = { };
        extras = _: { };
        finish = _: { };
        prefix = null;
        hasDist = null;
        isOpen = false;
        start = blank;
      } // given;
      # Nix refuses an argument here that nixpkgs' function does not take.
      accepted = if spec.function == null then spec.given else spec.function spec.given;
      args = spec.arguments // accepted;
      base = spec.start // { meta = { }; } // spec.attrs args;
      # Each layer sees the attributes below it, and the final ones if it asks for them.
      step = below: layer:
        let new = lib.toExtension layer (final // { finalPackage = self; }) below.attrs;
        in { attrs = below.attrs // new; new = below.new ++ [ new ]; };
      # What a builder was given comes in the first layer. What it adds, later layers see, and may replace.
      isBuilt = spec.start == { } && spec.layers != [ ];
      start = { attrs = base; new = [ ]; };
      first = if isBuilt then step start (builtins.head spec.layers) else start;
      original = first.attrs;
      nameOf = attrs: attrs.name or (if final ? version then "${final.pname}-${final.version}" else final.pname);
      own = lib.optionalAttrs (spec.prefix != null) { name = spec.prefix + nameOf original; }
        // lib.optionalAttrs (spec.isOpen || spec.hasDist != null) {
          outputs = original.outputs or [ "out" ] ++ lib.optional (spec.hasDist != null && spec.hasDist original) "dist";
        };
      built = foldl' step { attrs = original // own; inherit (first) new; }
        (if isBuilt then builtins.tail spec.layers else spec.layers);
      final = built.attrs;
      name = nameOf final;
      taken = mapAttrs (_: asInput) (builtins.intersectAttrs inputNames final);

      outputs = lib.unique (final.outputs or [ "out" ]);
      isKnown = isBuilt || (final ? outputs && !(spec.isOpen && final.outputs == own.outputs));
      drv = derivation {
        inherit name outputs;
        inherit (spec.context) system;
        builder = "/bin/sh";
        args = [ "-c" "echo this package only stands in for one of nixpkgs >&2; exit 1" ];
        attributes = toJSON (plain (removeAttrs (final // taken) [ "meta" "passthru" "system" ]));
        arguments = toJSON (plain (seen spec args));
        nixpkgs = spec.context.pin;
        inherit (spec) python;
        config = toJSON (plain (lib.filterAttrs (n: _: !permissive n) spec.context.config));
      };

      again = change: make (spec // change);
      overrideAttrs = layer: again { layers = spec.layers ++ [ layer ]; };

      self =
        lib.genAttrs (if isKnown then [ ] else outputNames) (_: self)
        // lib.genAttrs outputs (output: self // {
          inherit (drv.${output}) outPath;
          outputName = output;
          outputSpecified = true;
        })
        // final
        // taken
        // { meta = judged spec.context (final.meta or { }); }
        // spec.extras args
        // spec.finish original
        // (final.passthru or { })
        // {
          type = "derivation";
          inherit name;
          inherit (drv) drvPath outPath;
          inherit (spec.context) system;
          pname = final.pname or (lib.getName name);
          outputName = builtins.head outputs;
          drvAttrs = final // taken;
          inherit outputs;
          passthru = final.passthru or { };
          override = new: again { given = spec.given // (if lib.isFunction new then new args else new); };
          inherit overrideAttrs;
          overridePythonAttrs = overrideAttrs;
          overrideDerivation = overrideAttrs;
          # For record.nix alone.
          __record = {
            inherit (spec) package attribute changes context given python scope;
            inherit args final;
            isMade = spec.start == { };
            isChecked = spec.given == { } || spec.function != null;
            effective = spec.extras args;
            set = foldl' (a: b: a // b) { } built.new;
            variables = filter (attribute: builtins.match "[A-Z][A-Z0-9_]*" attribute != null) (builtins.attrNames base);
          };
        };
    in
    self;

  # A package that the stand-in knows nothing of: a derivation of that name, which can be called like a builder, and
  # has as members whatever the recipes select from anything (`members`).
  # `more` are further entries of its spec.
  invent = { context, attribute, members, python ? "", changes ? [ ], scope ? { }, version ? "0", more ? { } }:
    let
      here = lib.last (lib.splitString "." attribute);
      member = name: _: invent { inherit context members python scope; attribute = "${attribute}.${name}"; };
      called = calls:
        let
          attrs = foldl' (a: b: a // b) { } (filter (c: isAttrs c && !lib.isDerivation c) calls);
          self = make (more // {
            inherit context attribute changes python scope;
            isOpen = true;
            given = lib.optionalAttrs (calls != [ ]) { inherit calls; };
            attrs = _: { pname = here; inherit version; } // lib.optionalAttrs (here != "src") { src = member "src" null; };
            layers = lib.optional (attrs != { }) (_: attrs);
          });
        in
        mapAttrs member members // self // { __functor = _: argument: called (calls ++ [ argument ]); };
    in
    called [ ];

  # The builders' packages: what the recipe gives, a set or a function of the final attributes, is all that there is.
  fromRecipe = spec: attrs:
    make (spec // {
      start = { };
      attrs = _: { };
      layers = [ (final: _: if lib.isFunction attrs then attrs final else attrs) ];
    });

  isRecorded = value: lib.isDerivation value && value ? __record;

  # The same package, reached through another attribute; and whatever is made of it.
  rename = attribute: drv:
    let changed = how: change: rename attribute (drv.${how} change);
    in
    drv
    // lib.genAttrs [ "override" "overrideAttrs" "overridePythonAttrs" "overrideDerivation" ] changed
    // { __record = drv.__record // { inherit attribute; }; };

  # A package set by another name: its packages say that they were reached through that one.
  relabel = other: set:
    let
      renamed = drv: rename "${other}.${lib.last (lib.splitString "." drv.__record.attribute)}" drv;
    in
    mapAttrs (_: value: if isRecorded value then renamed value else value) set
    // {
      override = args: relabel other (set.override args);
      overrideScope = extra: relabel other (set.overrideScope extra);
    };
in
{ inherit make invent fromRecipe isRecorded rename relabel inherited; }
