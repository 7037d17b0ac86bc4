# Functions on strings, versions and search paths.
{ lib }:
let
  inherit (builtins) concatMap elemAt filter genList head isAttrs isList isString length map replaceStrings tail;
  lower = "abcdefghijklmnopqrstuvwxyz";
  upper = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
in
rec {
  inherit (builtins)
    baseNameOf compareVersions concatStringsSep dirOf hashFile hashString match replaceStrings split splitVersion
    stringLength substring unsafeDiscardStringContext;

  concatStrings = concatStringsSep "";
  concatMapStrings = f: list: concatStrings (map f list);
  concatMapStringsSep = separator: f: list: concatStringsSep separator (map f list);
  concatImapStrings = f: list: concatStrings (lib.imap1 f list);
  concatImapStringsSep = separator: f: list: concatStringsSep separator (lib.imap1 f list);
  concatMapAttrsStringSep = separator: f: set: concatStringsSep separator (lib.mapAttrsToList f set);
  concatLines = concatMapStrings (line: line + "\n");
  intersperse = lib.lists.intersperse;
  replicate = n: text: concatStrings (genList (_: text) n);
  replicateString = replicate;
  join = concatStringsSep;
  optionalString = condition: text: if condition then text else "";
  hasPrefix = prefix: text: substring 0 (stringLength prefix) text == prefix;
  hasSuffix = suffix: text:
    let size = stringLength text; own = stringLength suffix;
    in size >= own && substring (size - own) own text == suffix;
  hasInfix = infix: text: length (split (escapeRegex infix) "${text}") > 1;
  removePrefix = prefix: text:
    if hasPrefix prefix text then substring (stringLength prefix) (stringLength text) text else text;
  removeSuffix = suffix: text:
    if hasSuffix suffix text then substring 0 (stringLength text - stringLength suffix) text else text;
  toLower = replaceStrings (stringToCharacters upper) (stringToCharacters lower);
  toUpper = replaceStrings (stringToCharacters lower) (stringToCharacters upper);
  toSentenceCase = text: toUpper (substring 0 1 text) + toLower (substring 1 (stringLength text) text);
  toCamelCase = text:
    let words = filter (word: word != "") (filter isString (split "[-_ ]+" text));
    in concatStrings ([ (toLower (head words)) ] ++ map toSentenceCase (tail words));
  stringToCharacters = text: genList (n: substring n 1 text) (stringLength text);
  stringAsChars = f: text: concatStrings (map f (stringToCharacters text));
  splitString = separator: text:
    map (addContextFrom text) (filter isString (split (escapeRegex (toString separator)) (toString text)));
  addContextFrom = source: text: substring 0 0 source + text;
  trim = trimWith { start = true; end = true; };
  trimWith = { start ? false, end ? false }: text:
    let
      left = if start then head (match "[ \t\r\n]*(.*)" text) else text;
      right = m: if m == null then "" else head m;
    in
    if end then right (match "(.*[^ \t\r\n])[ \t\r\n]*" left) else left;
  commonPrefixLength = a: b:
    let
      limit = lib.min (stringLength a) (stringLength b);
      from = n: if n < limit && substring n 1 a == substring n 1 b then from (n + 1) else n;
    in
    from 0;

  escape = list: replaceStrings list (map (char: "\\${char}") list);
  escapeRegex = escape (stringToCharacters "\\[{()^$?*+|.");
  escapeC = list: escape list;
  escapeNixString = text: escape [ "$" ] (builtins.toJSON text);
  escapeNixIdentifier = text: if match "[a-zA-Z_][a-zA-Z0-9_'-]*" text != null then text else escapeNixString text;
  escapeXML = replaceStrings [ "\"" "'" "<" ">" "&" ] [ "&quot;" "&apos;" "&lt;" "&gt;" "&amp;" ];
  escapeURL = text: text;
  escapeShellArg = value:
    let text = toString value;
    in if match "[[:alnum:],._+:@%/-]+" text != null then text else "'${replaceStrings [ "'" ] [ "'\\''" ] text}'";
  escapeShellArgs = concatMapStringsSep " " escapeShellArg;
  isValidPosixName = name: match "[a-zA-Z_][a-zA-Z0-9_]*" name != null;
  toShellVar = name: value:
    let pair = n: v: "[${escapeShellArg n}]=${escapeShellArg v}";
    in
    if !isValidPosixName name then throw "toShellVar: ${name} is not a valid shell variable name"
    else if isAttrs value && !isStringLike value then
      "declare -A ${name}=(${concatStringsSep " " (lib.mapAttrsToList pair value)})"
    else if isList value then "declare -a ${name}=(${escapeShellArgs value})"
    else "${name}=${escapeShellArg value}";
  toShellVars = vars: concatStringsSep "\n" (lib.mapAttrsToList toShellVar vars);

  isStorePath = x: isStringLike x && substring 0 1 (toString x) == "/" && dirOf (toString x) == builtins.storeDir;
  isStringLike = x: isString x || builtins.isPath x || x ? outPath || x ? __toString;
  isConvertibleWithToString = x:
    isStringLike x || builtins.elem (builtins.typeOf x) [ "null" "int" "float" "bool" "list" ];
  isCoercibleToString = isStringLike;
  toInt = text:
    let digits = match "[ \t\n]*0*(-?[0-9]+)[ \t\n]*" text;
    in
    if digits == null then throw "toInt: Could not convert ${builtins.toJSON text} to int."
    else builtins.fromJSON (head digits);
  toIntBase10 = toInt;
  fixedWidthString = width: filler: text:
    if stringLength text >= width then text else fixedWidthString width filler (filler + text);
  fixedWidthNumber = width: n: fixedWidthString width "0" (toString n);
  floatToString = toString;
  readPathsFromFile = root: file:
    map (line: root + "/${line}") (filter (line: line != "") (splitString "\n" (lib.readFile file)));
  fileContents = file: removeSuffix "\n" (lib.readFile file);
  sanitizeDerivationName = name:
    let clean = concatMapStrings (part: if isList part then "-" else part) (split "[^[:alnum:]+._?=-]+" "${name}");
    in if clean == "" then "unknown" else removePrefix "." clean;
  nameFromURL = url: separator: head (splitString separator (baseNameOf url));
  textClosureMap = f: _: list: concatStringsSep "\n" (map f list);
  getName = x:
    if isString x then (builtins.parseDrvName x).name else x.pname or (builtins.parseDrvName x.name).name;
  getVersion = x:
    if isString x then (builtins.parseDrvName x).version else x.version or (builtins.parseDrvName x.name).version;

  versionOlder = a: b: compareVersions b a == 1;
  versionAtLeast = a: b: !versionOlder a b;
  major = version: elemAt (splitVersion version) 0;
  minor = version: elemAt (splitVersion version) 1;
  patch = version: elemAt (splitVersion version) 2;
  majorMinor = version: concatStringsSep "." (lib.take 2 (splitVersion version));
  pad = n: version:
    let parts = splitVersion (head (splitString "-" version));
    in concatStringsSep "." (lib.take n (parts ++ genList (_: "0") n));

  makeSearchPath = sub: packages: concatStringsSep ":" (map (p: "${p}/${sub}") (filter (p: p != null) packages));
  makeSearchPathOutput = output: sub: packages: makeSearchPath sub (map (lib.getOutput output) packages);
  makeLibraryPath = makeSearchPathOutput "lib" "lib";
  makeIncludePath = makeSearchPathOutput "dev" "include";
  makeBinPath = makeSearchPathOutput "bin" "bin";

  cmakeOptionType = type: feature: value: "-D${feature}:${toUpper type}=${value}";
  cmakeBool = feature: on: cmakeOptionType "bool" feature (if on then "TRUE" else "FALSE");
  cmakeFeature = cmakeOptionType "string";
  mesonOption = feature: value: "-D${feature}=${value}";
  mesonBool = feature: on: mesonOption feature (lib.boolToString on);
  mesonEnable = feature: on: mesonOption feature (if on then "enabled" else "disabled");
  enableFeature = on: feature: "--${if on then "enable" else "disable"}-${feature}";
  enableFeatureAs = on: feature: value: enableFeature on feature + optionalString on "=${value}";
  withFeature = on: feature: "--with${optionalString (!on) "out"}-${feature}";
  withFeatureAs = on: feature: value: withFeature on feature + optionalString on "=${value}";

  toGNUCommandLine = _: options: lib.concatLists (lib.mapAttrsToList (name: value:
    let flag = if stringLength name > 1 then "--${name}" else "-${name}";
    in
    if value == null || value == false then [ ]
    else if value == true then [ flag ]
    else concatMap (v: [ flag (toString v) ]) (lib.toList value)
  ) options);
  toGNUCommandLineShell = options: set: escapeShellArgs (toGNUCommandLine options set);
  toKeyValue = _: set: concatStrings (lib.mapAttrsToList (name: value: "${name}=${toString value}\n") set);
  toINI = options: set:
    concatStringsSep "\n" (lib.mapAttrsToList (section: values: "[${section}]\n${toKeyValue options values}") set);
  toPretty = _: builtins.toJSON;
}
