# The library of the stand-in: the functions of nixpkgs' `lib` that recipes call, by the same names and with the same
# meaning. A function that is missing here is a finding with Nix's own words ("attribute 'x' missing"), so breadth
# counts more than speed; what belongs to the module system or to cross compilation is left out.
#
# `names`: every identifier of the recipes at hand; a maintainer or a licence of any of those names exists.
# `unfree`: licences that are not free, beyond nixpkgs' general ones.
# `readFile`: the reader to use, so that files read through the library are recorded like all others.
{ names, unfree, readFile }:
let
  trivial = import ./trivial.nix { inherit lib readFile; };
  lists = import ./lists.nix { inherit lib; };
  strings = import ./strings.nix { inherit lib; };
  attrsets = import ./attrsets.nix { inherit lib; };
  fixedPoints = import ./fixed-points.nix { inherit lib; };
  facts = import ./facts.nix { inherit lib names unfree; };

  lib =
    # `replicate` is the lists' where both have it.
    trivial // strings // lists // attrsets // fixedPoints // facts
    // {
      inherit trivial lists strings attrsets fixedPoints;
      customisation = fixedPoints;
      versions = { inherit (strings) major minor patch majorMinor splitVersion pad; };
      meta = { inherit (facts) addMetaAttrs setName lowPrio hiPrio getExe getExe' availableOn hydraPlatforms; };
      asserts = { inherit (trivial) assertMsg assertOneOf; };
      debug = { inherit (trivial) traceIf traceVal traceValFn traceSeq traceValSeq traceSeqN; };
      cli = { inherit (strings) toGNUCommandLine toGNUCommandLineShell; };
      generators = {
        inherit (strings) toKeyValue toINI toPretty;
        toJSON = _: builtins.toJSON;
        toYAML = _: builtins.toJSON;
      };
      sources = { inherit (trivial) cleanSource cleanSourceWith sourceByRegex sourceFilesBySuffices; };
      fileset = rec {
        toSource = { root, ... }: root;
        unions = sets: sets;
        union = a: b: [ a b ];
        difference = a: _: a;
        intersection = a: _: a;
        maybeMissing = path: path;
        fileFilter = _: path: path;
        gitTracked = path: path;
        fromSource = path: path;
      };
      __label = "lib";
    };
in
lib
