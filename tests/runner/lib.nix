# As much of nixpkgs' lib as the module uses, so that it can be evaluated without nixpkgs: options keep what they were
# given, and conditions what they hold.
let
  type = name: { inherit name; };
in
{
  inherit (builtins) attrNames any;
  mkOption = option: option;
  mkEnableOption = description: { inherit description; };
  optionalAttrs = condition: set: if condition then set else { };
  mkIf = condition: content: if condition then content else { };
  literalExpression = text: text;
  nameValuePair = name: value: { inherit name value; };
  filterAttrs = keep: set: builtins.listToAttrs (builtins.filter (pair: keep pair.name pair.value)
    (map (name: { inherit name; value = set.${name}; }) (builtins.attrNames set)));
  mapAttrs' = change: set: builtins.listToAttrs (map (name: change name set.${name}) (builtins.attrNames set));
  types = {
    package = type "package";
    str = type "str";
    path = type "path";
    attrsOf = of: type "attrs";
    ints.positive = type "positive";
  };
}
