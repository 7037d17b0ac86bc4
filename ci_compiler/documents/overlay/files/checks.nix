# @heading@
# What `nix run` offers for each build:
#
#   cached-NAME   whether the binary cache has the build, before anything is fetched or built
#   check-NAME    imports the packages of the build's cell, and calculates with them on the CPU, and on the GPU if there is one
{ fleet, pkgs }:
let
  inherit (builtins) filter listToAttrs replaceStrings toJSON unsafeDiscardStringContext;
  inherit (pkgs.stdenv.hostPlatform) system;

  script = name: text: {
    inherit name;
    value = { type = "app"; program = toString (pkgs.writeShellScript name text); };
  };
  quoted = text: "'${replaceStrings [ "'" ] [ "'\\''" ] text}'";

  # The store paths of a build's outputs. Naming them must not build them.
  outputs = drv: toString (map (output: unsafeDiscardStringContext drv.${output}.outPath) drv.outputs);

  cached = variant: script "cached-${variant.name}" ''
    exec nix --extra-experimental-features nix-command path-info --store ${quoted fleet.cache.url} \
      ${outputs fleet.newest.${system}.${variant.name}}
  '';

  checked = variant:
    let cell = fleet.choose { inherit (variant) branch toolkit gpu isa python system@further@; };
    in script "check-${variant.name}" ''
      exec ${cell.environment}/bin/python3 ${./check.py} ${quoted (toJSON {
        inherit (variant) version toolkit device;
        target = variant.code;
        package = variant.attribute;
      })}
    '';

  # The best of several builds of one name is first, and `listToAttrs` takes that.
  here = filter (variant: variant.system == system) fleet.rows;
in
listToAttrs ((if fleet.cache == null then [ ] else map cached here) ++ map checked here)
