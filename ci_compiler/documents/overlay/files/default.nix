# @heading@
# The builds of the fleet: each is the derivation of its own recipe, with the nixpkgs that the recipe pins.
#
#   variants.BRANCH.NAME     every build
#   newest.SYSTEM.NAME       the same without the branch; of several builds of one name, the newest
#   tests.BRANCH.NAME        what is known of the tests of a build; `choose` traces it unless it is fully tested
#   choose { gpu = "sm90"; isa = "avx2"; }    the packages of one kind of hardware, with a Python that has them
let
  inherit (builtins) all attrNames attrValues concatStringsSep filter head listToAttrs mapAttrs removeAttrs;

  fleet = import ./fleet.nix;

  load = variant:
    let recipe = import (fleet.branches.${variant.branch} + "/${variant.name}.nix") { };
    in
    if variant.recalled == "" then recipe
    else builtins.trace "warning: ${variant.name} of ${variant.branch} is recalled: ${variant.recalled}" recipe;

  byBranch = value: mapAttrs (branch: _: listToAttrs (map (variant: { inherit (variant) name; value = value variant; })
    (filter (variant: variant.branch == branch) fleet.variants))) fleet.branches;

  variants = byBranch load;
  tests = byBranch (variant: fleet.proofs.${variant.proof});

  noted = variant: value:
    let proof = tests.${variant.branch}.${variant.name};
    in
    if builtins.substring 0 7 proof == "tested;" then value
    else builtins.trace "note: ${variant.name} of ${variant.branch} is ${proof}" value;

  build = variant: variants.${variant.branch}.${variant.name};

  unique = list: attrNames (listToAttrs (map (name: { inherit name; value = null; }) list));

  # Whether a build with `have` serves who asks for `value`. In open matrices, none on an axis serves all.
  serves = axis: have: value:
    have == value || (fleet ? serves && axis != "listed" && (
      have == "" || builtins.elem value (fleet.serves.${axis}.${have} or [ ])));

  # The packages of the best cell, by their attribute in nixpkgs. The variants are listed best first.
  choose =
    { gpu, isa, system ? null, toolkit ? null, python ? null, branch ? null@arguments@ }@wanted:
    let
      asked = removeAttrs wanted (filter (axis: wanted.${axis} == null) (attrNames wanted));
      fits = axes: variant: all (axis: serves axis variant.${axis} asked.${axis}) axes;
      fitting = filter (fits (attrNames asked)) fleet.variants;
      cellOf = one: filter (variant: all (axis: serves axis variant.${axis} one.${axis}) fleet.axes) fitting;
      sound = filter (variant: variant.recalled == "");
      # A cell of which nothing is recalled, if there is one.
      found = filter (one: sound (cellOf one) == cellOf one) fitting ++ sound fitting;
      cell = sound (cellOf (head found));
      isas = unique (map (variant: variant.isa) (filter (fits [ "gpu" ]) fleet.variants));
      gpus = unique (map (variant: variant.gpu) fleet.variants);
      show = axis: "${axis} ${asked.${axis}}";
      known = if isas == [ ] then "its GPUs are ${toString gpus}" else "for gpu ${gpu}, its isas are ${toString isas}";
    in
    if found == [ ] then throw "the fleet builds nothing for ${concatStringsSep ", " (map show (attrNames asked))}; ${known}"
    else withPython (listToAttrs (map (variant: { name = variant.attribute; value = noted variant (build variant); }) cell));

  # `python3` is the fleet's own, since packages for another derivation of Python cannot be used together with these.
  # What its package set builds, such as transformers, uses the fleet's builds.
  withPython = packages:
    let
      modules = listToAttrs (filter (one: one.value ? pythonModule)
        (map (name: { inherit name; value = packages.${name}; }) (attrNames packages)));
      python3 =
        if modules == { } then throw "there are no Python packages among ${toString (attrNames packages)}"
        else (head (attrValues modules)).pythonModule.override {
          self = python3;
          packageOverrides = _: _: modules;
        };
    in
    packages // {
      inherit python3;
      environment = python3.withPackages (set: map (name: set.${name}) (attrNames modules));
    };
in
{
  inherit choose variants tests;
  inherit (fleet) cache;
  rows = fleet.variants;
  # `listToAttrs` takes the first of several attributes of one name.
  newest = listToAttrs (map (system: {
    name = system;
    value = listToAttrs (map (variant: { inherit (variant) name; value = build variant; })
      (filter (variant: variant.system == system) fleet.variants));
  }) (unique (map (variant: variant.system) fleet.variants)));
}
