# What a recipe sees in place of Nix's own builtins: nothing that fetches, runs or depends on the machine.
#
# - `fetchTarball` of a nixpkgs gives a path that `import` answers for with the stand-in; of an address that a folder
#   was named for (`tarballs`), that folder; of anything else it refuses.
# - `import` reads the file with these same builtins, and says which file it was.
# - `note` is how a recipe's doings reach the driver (main.nix).
{ lib, note, tarballs, nixpkgs }:
let
  inherit (builtins) attrNames elemAt filter head isAttrs isString match sort stringLength substring;

  # Paths under here exist in this evaluation only: `/nixpkgs-stand-in/<revision>/…`.
  root = "/nixpkgs-stand-in/";
  ambient = "ambient";
  pathOf = revision: root + revision;

  # The revision (or channel) of a nixpkgs address, or null.
  revisionOf = url:
    let
      archive = match (
        ".*[/:][Nn]ix[Pp]kgs(-channels)?(\\.git)?/"
        + "(archive|tarball|zipball|tar\\.gz|zip)/(refs/(heads|tags)/)?(.+)"
      ) url;
      channel = match (
        "https?://(channels\\.|releases\\.)?nixos\\.org/(channels/)?(.+)/nixexprs\\.tar\\.[a-z0-9]+"
      ) url;
      bare = text: lib.removeSuffix ".tar.gz" (lib.removeSuffix ".zip" text);
    in
    if archive != null then bare (elemAt archive 5)
    else if channel != null then baseNameOf (elemAt channel 2)
    else null;
  repositoryOf = url: match "(git\\+)?(https?|ssh|git)://.*/[Nn]ix[Pp]kgs(\\.git)?/?" url != null;

  # The folder that stands in for an address: that of the longest prefix.
  folderOf = url:
    let
      longer = a: b: stringLength a > stringLength b;
      fitting = sort longer (filter (prefix: lib.hasPrefix prefix url) (attrNames tarballs));
    in
    if fitting == [ ] then null else tarballs.${head fitting};

  fetched = how: url: given:
    let
      folder = folderOf url;
      revision = if folder == null then revisionOf url else null;
      hash = given.sha256 or given.hash or given.narHash or "";
    in
    note "fetch" { inherit url hash revision; } (
      if folder != null then folder
      else if revision != null then pathOf revision
      else throw "${how} of ${url} is refused: recipes are evaluated offline, and no folder stands in for it"
    );

  fetchTarball = given:
    if isString given then fetched "fetchTarball" given { } else fetched "fetchTarball" given.url given;
  fetchGit = given:
    let
      args = if isAttrs given then given else { url = toString given; };
      revision = args.rev or args.ref or "HEAD";
      archive = "${lib.removeSuffix ".git" args.url}/archive/${revision}.tar.gz";
    in
    {
      outPath = fetched "fetchGit" (if repositoryOf args.url then archive else args.url) args;
      rev = revision;
      shortRev = substring 0 7 revision;
    };
  fetchTree = args:
    let
      revision = args.rev or args.ref or "HEAD";
      archive = "https://github.com/${args.owner}/${args.repo}/archive/${revision}.tar.gz";
    in
    if args.type or "" == "github" then { outPath = fetched "fetchTree" archive args; rev = revision; }
    else if args.type or "" == "git" then fetchGit args
    else { outPath = fetchTarball args; };
  refuse = name: _: throw "builtins.${name} is refused while recipes are evaluated";

  # A source that a package-level fetcher would fetch, imported: the same as fetching it here.
  addressOf = value: if isAttrs value then value.__record.given.url or null else null;

  standIn = text:
    let
      parts = match "${root}([^/]+)(/(.*))?" text;
      revision = head parts;
      sub = elemAt parts 2;
      pin = if revision == ambient then "" else revision;
    in
    if sub == null || sub == "" || sub == "default.nix" then
      note "nixpkgs" { inherit pin; } (nixpkgs { inherit pin; path = pathOf revision; })
    else if match "lib/?(default\\.nix)?" sub != null then lib
    else throw "nixpkgs' ${sub} is not in the stand-in for nixpkgs";

  importWith = extra: value:
    let
      url = addressOf value;
      path =
        if url != null then fetched "import" url value.__record.given
        else if isAttrs value then toString value
        else value;
      text = toString path;
    in
    if lib.hasPrefix root text then standIn text
    else note "import" { path = text; } (builtins.scopedImport (scope // extra) path);

  noted = kind: f: path: note kind { path = toString path; } (f path);

  findFile = _: name:
    if name == "nixpkgs" || lib.hasPrefix "nixpkgs/" name then pathOf (ambient + lib.removePrefix "nixpkgs" name)
    else throw "file '${name}' was not found in the Nix search path: recipes are evaluated with <nixpkgs> alone";

  changed = {
    inherit fetchTarball fetchGit fetchTree findFile;
    fetchMercurial = refuse "fetchMercurial";
    # A file that a package is made of, never read here: as nixpkgs' own fetcher records it.
    fetchurl = (nixpkgs { pin = ""; path = pathOf ambient; } { }).fetchurl;
    fetchClosure = refuse "fetchClosure";
    getFlake = refuse "getFlake";
    exec = refuse "exec";
    importNative = refuse "importNative";
    storePath = refuse "storePath";
    import = importWith { };
    scopedImport = extra: importWith extra;
    readFile = noted "read" builtins.readFile;
    readDir = noted "read" builtins.readDir;
    getEnv = _: "";
    currentTime = 0;
    nixPath = [ { prefix = "nixpkgs"; path = pathOf ambient; } ];
    # A recipe's own words on standard error would be taken for ours.
    trace = _: value: value;
    traceVerbose = _: value: value;
    warn = _: value: value;
    break = value: value;
  };
  # Only what this Nix has: `builtins ? fetchClosure` answers as it would.
  replaced = builtins.intersectAttrs builtins changed;
  own = builtins // replaced // { builtins = own; };

  # Some builtins are global by their name, the others with two underscores before it.
  global = [ "break" "fetchGit" "fetchMercurial" "fetchTarball" "fetchTree" "import" "scopedImport" ];
  scope = { builtins = own; } // lib.mapAttrs' (name: value: {
    name = if builtins.elem name global then name else "__${name}";
    inherit value;
  }) replaced;
in
{
  import = importWith { };
  ambientPath = pathOf ambient;
}
