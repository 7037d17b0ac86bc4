# Fetchers and the small builders of nixpkgs. Nothing is fetched and nothing is built: each gives a package that
# remembers what it was asked for. `note` tells the driver of each source that an evaluation uses.
{ lib, package, note }:
context:
let
  inherit (builtins) filter isString removeAttrs;
  recipe = attribute: package.fromRecipe { inherit context attribute; };

  # The name that nixpkgs gives to what a fetcher fetches, where the caller gives none.
  sourceName = args: url: args.name or (if url == null then "source" else lib.sanitizeDerivationName (baseNameOf url));

  fetcher = attribute: named: given:
    let
      args = if isString given then { url = given; } else given;
      made = source attribute named args;
      written = filter (name: args ? ${name}) [ "hash" "sha256" "rev" "tag" "url" ];
      place = builtins.unsafeGetAttrPos (builtins.head (written ++ [ "" ])) args;
    in
    note "source" {
      inherit (made) name;
      fetcher = attribute;
      place = if place == null then [ ] else [ place.file place.line place.column ];
      arguments = builtins.intersectAttrs (lib.genAttrs written (_: null) // { owner = null; repo = null; fetchSubmodules = null; }) args;
      others = builtins.attrNames (removeAttrs args [
        "hash" "sha256" "rev" "tag" "url" "owner" "repo" "fetchSubmodules" "name" "pname" "version" "meta" "passthru"
      ]);
    } made;
  source = attribute: named: args:
    package.make {
      inherit context attribute;
      package = "source";
      given = removeAttrs args [ "meta" "passthru" ];
      attrs = _: {
        name = sourceName args (if named then args.url or null else null);
        inherit (args) url;
        rev = args.rev or args.tag or "";
      } // lib.optionalAttrs (args ? owner) { inherit (args) owner repo; };
      extras = _: { outputHash = args.hash or args.sha256 or ""; };
    };

  # A forge's address of a revision, for those that are asked for by owner and name.
  forge = attribute: host: args:
    let
      repository = "https://${args.domain or host}/${args.owner}/${args.repo}";
      revision = toString (args.rev or args.tag or "");
    in
    fetcher attribute false ({ url = "${repository}/archive/${revision}.tar.gz"; } // args);

  named = attribute: name: rest: recipe attribute (_: rest // { inherit name; });
in
rec {
  fetchFromGitHub = forge "fetchFromGitHub" "github.com";
  fetchFromGitLab = forge "fetchFromGitLab" "gitlab.com";
  fetchFromGitea = forge "fetchFromGitea" "gitea.com";
  fetchFromForgejo = forge "fetchFromForgejo" "codeberg.org";
  fetchFromCodeberg = forge "fetchFromCodeberg" "codeberg.org";
  fetchFromSourcehut = forge "fetchFromSourcehut" "git.sr.ht";
  fetchgit = fetcher "fetchgit" true;
  fetchurl = fetcher "fetchurl" true;
  fetchzip = fetcher "fetchzip" false;
  fetchtarball = fetcher "fetchtarball" false;
  fetchpatch = fetcher "fetchpatch" true;
  fetchpatch2 = fetcher "fetchpatch2" true;
  fetchDebianPatch = args: fetcher "fetchDebianPatch" true ({
    url = "https://sources.debian.org/patches/${args.pname}/${args.patch}";
  } // args);
  fetchPypi = args: fetcher "fetchPypi" true ({
    url = "mirror://pypi/${builtins.substring 0 1 args.pname}/${args.pname}/${args.pname}-${args.version}.tar.gz";
  } // args);
  requireFile = args: fetcher "requireFile" true ({ url = args.name or "file"; } // args);

  runCommand = name: env: buildCommand: named "runCommand" name (env // { inherit buildCommand; });
  runCommandLocal = runCommand;
  runCommandCC = runCommand;
  runCommandNoCC = runCommand;
  writeTextFile = args: named "writeTextFile" args.name (removeAttrs args [ "name" ]);
  writeText = name: text: named "writeText" name { inherit text; };
  writeTextDir = path: text: named "writeTextDir" (baseNameOf path) { inherit path text; };
  writeScript = name: text: named "writeScript" name { inherit text; };
  writeScriptBin = name: text: named "writeScriptBin" name { inherit text; };
  writeShellScript = name: text: named "writeShellScript" name { inherit text; };
  writeShellScriptBin = name: text: named "writeShellScriptBin" name { inherit text; meta.mainProgram = name; };
  writeShellApplication = args: named "writeShellApplication" args.name (removeAttrs args [ "name" ]);
  concatText = name: files: named "concatText" name { inherit files; };
  symlinkJoin = args: recipe "symlinkJoin" (_: { name = lib.getName args; } // args);
  buildEnv = args: recipe "buildEnv" (_: args);
  linkFarm = name: entries: named "linkFarm" name { inherit entries; };
  linkFarmFromDrvs = linkFarm;
  applyPatches = args: recipe "applyPatches" (_: { name = args.src.name or "source"; } // args);
  substitute = args: named "substitute" (args.name or (baseNameOf (toString args.src))) args;
  substituteAll = substitute;
  replaceVars = src: replacements: named "replaceVars" (baseNameOf (toString src)) { inherit src replacements; };
  replaceVarsWith = args: named "replaceVarsWith" (args.name or (baseNameOf (toString args.src))) args;
  makeSetupHook = args: script: named "makeSetupHook" (args.name or "hook") (args // { inherit script; });
  mkShell = args: recipe "mkShell" (_: { name = "nix-shell"; } // args);

  # A standard environment: the one way to build from nothing.
  stdenvOf = name:
    let
      platform = lib.systems.elaborate context.system;
      cc = package.make {
        inherit context;
        attribute = "${name}.cc";
        attrs = _: { pname = "gcc-wrapper"; version = "14.3.0"; };
        extras = _: { isGNU = true; isClang = false; inherit cc; libc = cc; bintools = cc; targetPrefix = ""; };
      };
      env = package.make {
        inherit context;
        attribute = name;
        attrs = _: { name = "${name}-linux"; };
        extras = _: {
          inherit cc;
          inherit (context) system;
          inherit (platform) isLinux isDarwin isx86_64 isAarch64 isx86_32 is64bit;
          hostPlatform = platform;
          buildPlatform = platform;
          targetPlatform = platform;
          shell = "/bin/sh";
          hasCC = true;
          mkDerivation = recipe "${name}.mkDerivation";
        };
      };
    in
    env;
  overrideCC = env: cc: env // { inherit cc; };
}
