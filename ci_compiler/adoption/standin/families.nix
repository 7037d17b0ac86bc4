# What families of accelerators have in nixpkgs, as far as a recipe can tell. `families` have a `name`, and in `of` the
# function of their file `standin.nix`, which gives some of these:
#
#   config     what `config` has by default
#   known      { context, base, pin } -> the attributes of nixpkgs
#   torch      { context, base } -> what its torch has: `arguments`; of its arguments `inputs`, `nativeInputs`,
#              `patches` (names of nixpkgs' own), `variables`, `preConfigure`, `isBroken` and `extras`; `aliases`
#   user       { base, args } -> what a package has that uses torch
#   code       { pname, args } -> what nixpkgs' derivation of such a package has for its own GPU code
#   toolkit    { effective, final } -> the package set of the toolkit that a package is built with
#   support    { effective, config } -> whether a package is built for the family
families: { lib, package, members, names }:
let
  inherit (builtins) filter foldl' map;
  rows = map (family: family.of { inherit lib package members names; } // { inherit (family) name; }) families;
  having = part: filter (row: row ? ${part}) rows;
  all = part: given: foldl' (sum: row: sum // row.${part} given) { } (having part);
  first = part: none: given: foldl' (found: row: if found == none then row.${part} given else found) none (having part);
in
{
  config = foldl' (sum: row: sum // row.config) { } (having "config");
  known = all "known";
  user = all "user";
  code = all "code";
  toolkit = first "toolkit" null;
  supported = given: map (row: row.name) (filter (row: row.support given) (having "support"));
  torch = given:
    let
      parts = map (row: row.torch given) (having "torch");
      of = part: filter (one: one ? ${part}) parts;
      summed = part: args: foldl' (sum: one: sum // one.${part} args) { } (of part);
    in
    {
      arguments = foldl' (sum: one: sum // one.arguments) { } (of "arguments");
    }
    // lib.genAttrs [ "inputs" "nativeInputs" "patches" ] (part: args:
      lib.concatMap (one: one.${part} args) (of part))
    // {
      preConfigure = args: lib.concatMapStrings (one: one.preConfigure args) (of "preConfigure");
      isBroken = args: builtins.any (one: one.isBroken args) (of "isBroken");
      variables = summed "variables";
      extras = summed "extras";
      aliases = summed "aliases";
    };
}
