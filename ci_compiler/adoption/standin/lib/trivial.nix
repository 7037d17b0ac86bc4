# Functions on any value, warnings (silent here), assertions and files.
{ lib, readFile }:
rec {
  inherit (builtins)
    add addErrorContext bitAnd bitOr bitXor ceil compareVersions deepSeq div floor fromJSON fromTOML hashString
    isAttrs isBool isFloat isInt isList isNull isPath isString lessThan mul nixVersion parseDrvName pathExists
    placeholder readDir seq storeDir sub toJSON toPath toString toXML tryEval typeOf unsafeDiscardStringContext
    unsafeGetAttrPos;
  inherit readFile;

  id = x: x;
  const = x: _: x;
  pipe = builtins.foldl' (value: f: f value);
  concat = a: b: a ++ b;
  or = a: b: a || b;
  and = a: b: a && b;
  xor = a: b: a != b;
  bitNot = a: -1 - a;
  boolToString = b: if b then "true" else "false";
  boolToYesNo = b: if b then "yes" else "no";
  mergeAttrs = a: b: a // b;
  flip = f: a: b: f b a;
  mapNullable = f: a: if a == null then a else f a;
  defaultTo = default: a: if a == null then default else a;
  min = a: b: if a < b then a else b;
  max = a: b: if a > b then a else b;
  mod = a: b: a - b * (a / b);
  compare = a: b: if a < b then -1 else if a > b then 1 else 0;
  splitByAndCompare = p: yes: no: a: b: if p a then (if p b then yes a b else -1) else if p b then 1 else no a b;
  importJSON = path: builtins.fromJSON (readFile path);
  importTOML = path: builtins.fromTOML (readFile path);

  # A set with `__functor` is a function to nixpkgs, and a set to Nix.
  isFunction = f: builtins.isFunction f || (f ? __functor && isFunction (f.__functor f));
  functionArgs = f:
    if f ? __functor then f.__functionArgs or (functionArgs (f.__functor f)) else builtins.functionArgs f;
  setFunctionArgs = f: args: { __functor = _: f; __functionArgs = args; };
  mirrorFunctionArgs = f: g: setFunctionArgs g (functionArgs f);
  toFunction = v: if isFunction v then v else _: v;
  inPureEvalMode = false;
  inNixShell = false;
  version = "25.11";
  release = "25.11";
  isInOldestRelease = _: false;
  oldestSupportedReleaseIsAtLeast = _: true;

  # Whatever a recipe warns of is not this command's to say.
  warn = _: value: value;
  warnIf = _: _: value: value;
  warnIfNot = _: _: value: value;
  info = _: value: value;
  showWarnings = _: value: value;
  trace = _: value: value;
  traceIf = _: _: value: value;
  traceVal = value: value;
  traceValFn = _: value: value;
  traceSeq = _: value: value;
  traceValSeq = value: value;
  traceSeqN = _: _: value: value;

  throwIf = condition: message: if condition then throw message else value: value;
  throwIfNot = condition: throwIf (!condition);
  assertMsg = condition: message: condition || throw message;
  assertOneOf = name: value: all:
    assertMsg (builtins.elem value all)
      "${name} must be one of ${builtins.toJSON all}, but is: ${builtins.toJSON value}";
  checkListOfEnum = _: _: _: value: value;
  throwIfNull = message: value: if value == null then throw message else value;

  # A source filtered is a source: which files stay is not looked into.
  cleanSource = src: src;
  cleanSourceWith = { src, ... }: src;
  cleanSourceFilter = _: _: true;
  sourceByRegex = src: _: src;
  sourceFilesBySuffices = src: _: src;

  # A path joined to a path, as `lib.path` has it.
  path = {
    append = base: rest: base + "/${rest}";
    removePrefix = prefix: whole: "./" + lib.removePrefix (toString prefix + "/") (toString whole);
    hasPrefix = prefix: whole: lib.hasPrefix (toString prefix) (toString whole);
  };
}
