# nixpkgs, as far as a recipe can tell: `import nixpkgs { system = …; config = …; overlays = […]; }`.
#
# `names`: every identifier of the recipes at hand, as the names of a set. One that stands for nothing below becomes a
# made-up package, since Nix has no way to answer for an attribute that does not exist.
{ lib, package, pins, names, members, families, importer, note }:
let
  inherit (builtins) attrNames concatLists filter foldl' head isAttrs mapAttrs match removeAttrs;
  pythonOf = import ./python.nix { inherit lib package members pins families; };
  buildersOf = import ./builders.nix { inherit lib package note; };

  # The Pythons that are named, and those that are always there, with the numbers in their names.
  pythonNames = lib.genAttrs (
    [ "python311" "python312" "python313" "python314" ] ++ filter (name: match minor name != null) (attrNames names)
  ) (match minor);
  minor = "python3([0-9]+)";

  # A Python package that is sought in nixpkgs itself is not there.
  onlyPython = [ "torch" "torchvision" "torchaudio" "pytorch" "buildPythonPackage" "buildPythonApplication" ];

  # What is there before any overlay. `final` is the whole set with its overlays.
  knownIn = context: final:
    let
      builders = buildersOf context;
      pin = pins.of context.pin;
      python = name: numbers: pythonOf { inherit context name names; version = "3.${head numbers}"; base = final; };
      pythons = mapAttrs python pythonNames;
      default = "python${lib.replaceStrings [ "." ] [ "" ] pin.python}";
      named = other: package.relabel other final."${default}Packages";
      made = attribute: package.invent { inherit context members attribute; };
    in
    builders
    // families.known { inherit context pin; base = final; }
    // pythons
    // lib.mapAttrs' (name: _: { name = "${name}Packages"; value = final.${name}.pkgs; }) pythons
    // {
      inherit lib;
      inherit (context) system config overlays path;
      pkgs = final;
      stdenv = builders.stdenvOf "stdenv";
      stdenvNoCC = builders.stdenvOf "stdenvNoCC";
      gccStdenv = builders.stdenvOf "gccStdenv";
      clangStdenv = builders.stdenvOf "clangStdenv";
      inherit (final.stdenv) hostPlatform buildPlatform targetPlatform;

      python3 = final.${default};
      python = final.${default};
      python3Packages = named "python3Packages";
      pythonPackages = named "pythonPackages";
      pythonPackagesExtensions = [ ];
      magma = made "magma";
      blas = made "blas";

      callPackage = lib.callPackageWith final;
      callPackages = lib.callPackagesWith final;
      newScope = extra: lib.callPackageWith (final // extra);
      extend = overlay: context.again { overlays = context.overlays ++ [ overlay ]; };
      appendOverlays = overlays: context.again { overlays = context.overlays ++ overlays; };
      buildPackages = final;
      pkgsBuildHost = final;
      pkgsBuildBuild = final;
      pkgsHostTarget = final;
      pkgsStatic = final;
      inherit (lib) makeOverridable makeScope;
      recurseIntoAttrs = set: set;
      nix-gitignore = { gitignoreSource = _: src: src; gitignoreSourcePure = _: src: src; };
      __import = importer;
    };

  # `pin`: the revision, '' for the nixpkgs that a recipe is handed; `arguments`: what `import nixpkgs` was given.
  instance = { pin, path }: arguments:
    let
      # What the packages know of where they are from; record.nix reads it, too.
      context = {
        inherit pin path system arguments given final known;
        inherit (pins.of pin) versions derivations;
        isKnownPin = pins.knows pin;
        config = families.config // { allowUnfree = false; } // given;
        overlays = arguments.overlays or [ ];
        # The attributes that each overlay sets.
        sets = map attrNames layered.new;
        pythonExtensions = final.pythonPackagesExtensions;
        again = change: instance { inherit pin path; } (arguments // change);
      };
      config = arguments.config or { };
      given =
        if lib.isFunction config then
          config (builtins.intersectAttrs (lib.functionArgs config) { pkgs = final; inherit lib; })
        else config;
      platform = arguments.crossSystem or (arguments.localSystem or (arguments.system or "x86_64-linux"));
      system = if isAttrs platform then platform.system or platform.config else platform;

      known = knownIn context final;
      invented = mapAttrs (attribute: _: package.invent { inherit context members attribute; })
        (removeAttrs names (attrNames known ++ onlyPython));
      lay = below: overlay:
        let new = (if lib.isFunction overlay then overlay else importer overlay) final below.attrs;
        in { attrs = below.attrs // new; new = below.new ++ [ new ]; };
      layered = foldl' lay { attrs = invented // known; new = [ ]; } context.overlays;
      final = layered.attrs // {
        # The attributes that are made up: a function's own default goes before those (`callPackageWith`).
        __invented = removeAttrs invented (concatLists context.sets);
        __label = "nixpkgs";
      };
    in
    final;
in
instance
