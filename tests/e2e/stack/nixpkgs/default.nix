# A package set as small as one can be and still be what compiled recipes ask for: an `import` with configuration and
# overlays, a Python package set, `override` and `overrideAttrs`. Its builds need /bin/sh, and a moment.
{ system, config ? { }, overlays ? [ ] }:

let
  here = import ./here.nix; # what differs between machines and branches, see world.py

  # A derivation whose attributes can be overridden; `meta` and `passthru` stay out of it, as in nixpkgs.
  mkDerivation = attributes:
    let
      drv = derivation (removeAttrs attributes [ "meta" "passthru" ] // {
        inherit system;
        inherit (here) pythonVersion;
        name = "${attributes.pname}-${attributes.version}";
        builder = "/bin/sh";
      });
    in
    (attributes.passthru or { }) // drv // {
      inherit (attributes) pname version;
      meta = attributes.meta or { };
      overrideAttrs = change: mkDerivation (attributes // change attributes);
    };

  overridable = make: arguments: make arguments // {
    override = more: overridable make (arguments // more);
  };

  python = mkDerivation {
    pname = "python3";
    inherit (here) program;
    version = here.pythonVersion;
    args = [ "-eu" ./python.sh ];
  };

  package = { module, version, needs ? { }, cuda ? "", hip ? "", architectures ? [ ], standin ? "" }: mkDerivation {
    pname = module;
    inherit module version cuda hip architectures standin;
    imports = builtins.attrNames needs;
    propagated = [ python ] ++ builtins.attrValues needs;
    args = [ "-eu" ./package.sh ];
    passthru.pythonModule = python;
  };

  base = final: {
    inherit python;
    lib = {
      inherit (builtins) concatStringsSep;
      concatMapStringsSep = separator: function: items: builtins.concatStringsSep separator (map function items);
      unique = builtins.foldl' (seen: one: if builtins.elem one seen then seen else seen ++ [ one ]) [ ];
      getBin = package: package;
      hasPrefix = prefix: text: builtins.substring 0 (builtins.stringLength prefix) text == prefix;
    };

    cudaPackages = final.cudaPackages_12_8;
    cudaPackages_12_8 = { cudaVersion = "12.8"; cuda_cuobjdump = "/none"; };
    cudaPackages_13.cudaVersion = "13.0";
    rocmPackages.clr.version = "6.4.3";
    zstd = "/none";

    "python${builtins.replaceStrings [ "." ] [ "" ] here.pythonVersion}Packages" = rec {
      engine = overridable
        ({ cudaSupport, gpuTargets }: package {
          module = "engine";
          version = here.engine;
          cuda = if cudaSupport then final.cudaPackages.cudaVersion else "";
          architectures = gpuTargets;
        })
        { cudaSupport = config.cudaSupport or false; gpuTargets = [ ]; };

      vision = overridable
        ({ engine }: package {
          module = "vision";
          version = here.vision;
          needs = { inherit engine; };
        })
        { inherit engine; };

      # The stand-ins for PyTorch and its companions, which say that they are what their recipes ask for.
      torch = overridable
        ({ cudaSupport, rocmSupport, gpuTargets }: package {
          module = "torch";
          version = "2.8.0";
          cuda = if cudaSupport then final.cudaPackages.cudaVersion else "";
          hip = if rocmSupport then final.rocmPackages.clr.version else "";
          architectures = gpuTargets;
          standin = ./standins/torch;
        })
        {
          cudaSupport = config.cudaSupport or false;
          rocmSupport = config.rocmSupport or false;
          gpuTargets = [ ];
        };

      torchvision = overridable
        ({ torch }: package {
          module = "torchvision";
          version = "0.23.0";
          needs = { inherit torch; };
          standin = ./standins/torchvision;
        })
        { inherit torch; };

      torchaudio = overridable
        ({ torch }: package {
          module = "torchaudio";
          version = "2.8.0";
          needs = { inherit torch; };
          standin = ./standins/torchaudio;
        })
        { inherit torch; };
    };
  };

  fix = f: let self = f self; in self;
  extend = set: overlay: final: let prev = set final; in prev // overlay final prev;
in
fix (builtins.foldl' extend base overlays)
