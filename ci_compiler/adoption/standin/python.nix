# A Python interpreter of nixpkgs with its package set. `torch`, `torchvision` and `torchaudio` are packages of their
# own here; any other name that the recipes use is made up (package.nix).
{ lib, package, members, pins, families }:
{ context, name, version, names, base }:
let
  inherit (builtins) filter mapAttrs removeAttrs;
  attribute = "${name}Packages";
  spec = self: member: {
    inherit context;
    python = version;
    attribute = "${attribute}.${member}";
    changes = self.__changes;
    scope = self;
  };
  function = pins.functionOf context.pin;
  ofFamilies = families.torch { inherit context base; };
  prefix = "python${version}-";
  builder = self: member: package.fromRecipe (spec self member // {
    prefix = lib.optionalString (member == "buildPythonPackage") prefix;
    finish = asModule;
    # buildPythonPackage's formats that leave a wheel: interpreters/python/mk-python-derivation.nix.
    hasDist = given:
      if given ? pyproject then given.pyproject else builtins.elem (given.format or "setuptools") [ "pyproject" "setuptools" "wheel" ];
  });
  makeUp = self: member: package.invent (spec self member // {
    inherit members;
    more = { inherit prefix; finish = asModule; hasDist = _: true; };
  });
  invented = self:
    mapAttrs (member: _: makeUp self member)
      (removeAttrs names (builtins.attrNames context.known));

  about = description: {
    inherit description;
    homepage = "https://pytorch.org/";
    license = lib.licenses.bsd3;
    maintainers = [ ];
    platforms = lib.platforms.linux ++ lib.platforms.darwin;
    broken = false;
  };
  # nixpkgs' own source of a release.
  source = repo: version: base.fetchFromGitHub {
    owner = "pytorch";
    inherit repo;
    tag = "v${version}";
    hash = "";
    fetchSubmodules = true;
  };

  # What nixpkgs' own derivation of a package has, as far as the table of its revision says.
  own = self: pname:
    let
      row = context.derivations.${pname} or { };
      patch = file: package.make {
        inherit context;
        package = "source";
        attribute = "nixpkgs";
        attrs = _: { name = file; };
      };
    in
    lib.genAttrs (row.phases or [ ]) (_: package.inherited)
    // lib.listToAttrs (map (one: let pair = lib.splitString "=" one; in lib.nameValuePair (lib.head pair) (lib.last pair))
      (row.environment or [ ]))
    // {
      outputs = row.outputs or [ "out" "dist" ];
      patches = more: map patch (row.patches or [ ] ++ more);
      propagatedBuildInputs = map (name: self.${name} or (makeUp self name)) (row.dependencies or [ ]) ++ [ interpreter ];
    };

  torch = self: let mine = own self "torch"; in package.make (spec self "torch" // {
    package = "torch";
    inherit prefix;
    finish = asModule;
    function = function "torch";
    arguments = ofFamilies.arguments // { gpuTargets = [ ]; vulkanSupport = false; inherit (base) blas magma; };
    attrs = args: mine // ofFamilies.variables args // lib.optionalAttrs args.vulkanSupport { USE_VULKAN = "1"; } // {
      pname = "torch";
      version = context.versions.torch;
      src = source "pytorch" context.versions.torch;
      PYTORCH_BUILD_VERSION = context.versions.torch;
      USE_MPS = "0";
      patches = mine.patches (ofFamilies.patches args);
      preConfigure = ofFamilies.preConfigure args;
      nativeBuildInputs = ofFamilies.nativeInputs args;
      buildInputs = [ args.blas ] ++ ofFamilies.inputs args;
      meta = about "PyTorch: Tensors and Dynamic neural networks in Python with strong GPU acceleration" // {
        broken = ofFamilies.isBroken args;
      };
    };
    extras = args: ofFamilies.extras args // {
      inherit (args) gpuTargets vulkanSupport;
      blasProvider = args.blas;
      inherit (base) stdenv;
    };
  });

  # As in nixpkgs: packages with what they need, by the output of each that is handed on. It is computed before an
  # `overrideAttrs`, so that torch is there with its `dev` whatever a recipe propagates.
  required = drvs:
    let modules = filter (one: one.pythonModule or false != false) drvs;
    in lib.unique ([ interpreter ] ++ modules ++ lib.concatLists (lib.catAttrs "requiredPythonModules" modules));
  asModule = attrs:
    let handedOn = lib.flatten [ (attrs.propagatedBuildInputs or [ ]) (attrs.dependencies or [ ]) ];
    in { pythonModule = interpreter; requiredPythonModules = required (map lib.getDev (filter lib.isDerivation handedOn)); };

  # A package that uses torch: the set's own, or the one that `override` is given.
  user = self: pname: description: let mine = own self pname; in package.make (spec self pname // {
    package = pname;
    inherit prefix;
    finish = asModule;
    function = function pname;
    arguments = { inherit (self) torch; };
    attrs = args: mine // families.code { inherit pname args; } // {
      inherit pname;
      version = context.versions.${pname};
      src = source (lib.removePrefix "torch" pname) context.versions.${pname};
      patches = mine.patches [ ];
      propagatedBuildInputs = [ args.torch ] ++ mine.propagatedBuildInputs;
      meta = about description;
    };
    extras = args: families.user { inherit base args; } // { inherit (args) torch; };
  });

  known = self:
    let alias = other: package.rename "${attribute}.${other}" self.torch;
    in {
      torch = torch self;
      torchvision = user self "torchvision" "PyTorch vision library";
      torchaudio = user self "torchaudio" "PyTorch audio library";

      pytorch = alias "pytorch";  # works, and the record says that a recipe came by it
      buildPythonPackage = builder self "buildPythonPackage";
      buildPythonApplication = builder self "buildPythonApplication";
      toPythonModule = drv: drv // asModule drv;
      toPythonApplication = drv: drv;
      inherit (base) fetchPypi;
      python = interpreter;
      pythonVersion = version;
      pythonOlder = lib.versionOlder version;
      pythonAtLeast = lib.versionAtLeast version;
      isPy3k = true;
      isPy27 = false;
      isPyPy = false;
      sitePackages = "lib/python${version}/site-packages";
      pkgs = base;
    } // ofFamilies.aliases alias;

  # `override { overrides = …; }` replaces the overrides there were, `overrideScope` adds to them; as in nixpkgs.
  build = { overrides, scope }:
    let
      lay = below: extend:
        let new = extend self below.set;
        in { set = below.set // new; changes = below.changes ++ builtins.attrNames new; };
      layered = builtins.foldl' lay { set = invented self // known self; changes = [ ]; }
        (context.pythonExtensions ++ [ overrides scope ]);
      self = layered.set // {
        __changes = layered.changes;
        override = args: build {
          overrides = (if lib.isFunction args then args { inherit overrides; } else args).overrides or overrides;
          inherit scope;
        };
        overrideScope = extra: build { inherit overrides; scope = lib.composeExtensions scope extra; };
        newScope = extra: lib.callPackageWith (base // self // extra);
        callPackage = lib.callPackageWith (base // self);
        __label = "python${version}.pkgs";
      };
    in
    self;

  withOverrides = overrides:
    let
      set = build { inherit overrides; scope = _: _: { }; };
      made = member: { inherit context; attribute = "${name}${member}"; python = version; };
      # nixpkgs' `buildEnv` links each element and, asked by the Python set, the output `out` of each.
      environment = member: packages:
        package.fromRecipe (made ".${member}") (_: {
          name = "python3-${version}-env";
          paths = lib.unique (lib.concatMap (one: [ one (one.out or one) ]) (required packages));
        });
      self = package.make (made "" // { attrs = _: { pname = "python3"; inherit version; }; }) // {
        pkgs = set;
        pythonVersion = version;
        pythonOlder = lib.versionOlder version;
        pythonAtLeast = lib.versionAtLeast version;
        sitePackages = "lib/python${version}/site-packages";
        interpreter = "${self}/bin/python3";
        executable = "python${version}";
        isPy3k = true;
        pythonOnBuildForHost = self;
        withPackages = choose: environment "withPackages" (choose set);
        buildEnv = environment "buildEnv" [ ] // { override = args: environment "buildEnv" (args.extraLibs or [ ]); };
        override = args:
          let new = if lib.isFunction args then args { packageOverrides = overrides; } else args;
          in withOverrides (new.packageOverrides or overrides);
      };
    in
    self;
  interpreter = withOverrides (_: _: { });
in
interpreter
