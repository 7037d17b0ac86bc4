# Functions on lists.
{ lib }:
rec {
  inherit (builtins)
    all any concatLists concatMap elem elemAt filter foldl' genList head length map partition sort tail;

  singleton = x: [ x ];
  optional = condition: element: if condition then [ element ] else [ ];
  optionals = condition: elements: if condition then elements else [ ];
  toList = x: if builtins.isList x then x else [ x ];
  forEach = list: f: map f list;
  foldr = f: end: list:
    let
      size = length list;
      from = index: if index == size then end else f (elemAt list index) (from (index + 1));
    in
    from 0;
  fold = foldr;
  foldl = f: start: list: foldl' f start list;
  imap0 = f: list: genList (index: f index (elemAt list index)) (length list);
  imap1 = f: list: genList (index: f (index + 1) (elemAt list index)) (length list);
  ifilter0 = f: list:
    map (i: elemAt list i) (filter (i: f i (elemAt list i)) (range 0 (length list - 1)));
  concatImap = f: list: concatLists (imap1 f list);
  flatten = x: if builtins.isList x then concatMap flatten x else [ x ];
  remove = unwanted: filter (x: x != unwanted);
  findSingle = predicate: none: many: list:
    let found = filter predicate list;
    in if found == [ ] then none else if length found > 1 then many else head found;
  findFirst = predicate: default: list:
    let found = filter predicate list;
    in if found == [ ] then default else head found;
  findFirstIndex = predicate: default: list:
    let found = filter (i: predicate (elemAt list i)) (range 0 (length list - 1));
    in if found == [ ] then default else head found;
  count = predicate: list: length (filter predicate list);
  range = first: last: if first > last then [ ] else genList (n: first + n) (last - first + 1);
  replicate = n: x: genList (_: x) n;
  reverseList = list: let size = length list; in genList (n: elemAt list (size - n - 1)) size;
  last = list: assert lib.assertMsg (list != [ ]) "lists.last: the list is empty"; elemAt list (length list - 1);
  init = list: assert lib.assertMsg (list != [ ]) "lists.init: the list is empty"; take (length list - 1) list;
  sublist = start: count: list:
    let size = length list;
    in genList (n: elemAt list (n + start)) (
      if start >= size then 0 else if start + count > size then size - start else count
    );
  take = count: sublist 0 count;
  takeEnd = n: list: drop (lib.max 0 (length list - n)) list;
  drop = count: list: sublist count (length list) list;
  dropEnd = n: list: take (lib.max 0 (length list - n)) list;
  crossLists = f: foldl' (fs: args: concatMap (g: map g args) fs) [ f ];
  zipListsWith = f: a: b: genList (n: f (elemAt a n) (elemAt b n)) (lib.min (length a) (length b));
  zipLists = zipListsWith (fst: snd: { inherit fst snd; });
  intersectLists = e: filter (x: elem x e);
  subtractLists = e: filter (x: !(elem x e));
  mutuallyExclusive = a: b: !(any (x: elem x a) b);
  unique = foldl' (seen: x: if elem x seen then seen else seen ++ [ x ]) [ ];
  uniqueStrings = list: builtins.attrNames (lib.genAttrs list (_: null));
  allUnique = list: length (unique list) == length list;
  groupBy' = op: start: key: list: builtins.mapAttrs (_: foldl' op start) (groupBy key list);
  groupBy = builtins.groupBy;
  sortOn = key: sort (a: b: key a < key b);
  sortProperties = sort (a: b: (a.priority or 1000) < (b.priority or 1000));
  naturalSort = sort (a: b: builtins.compareVersions a b < 0);
  compareLists = cmp: a: b:
    if a == [ ] then (if b == [ ] then 0 else -1)
    else if b == [ ] then 1
    else let rel = cmp (head a) (head b); in if rel == 0 then compareLists cmp (tail a) (tail b) else rel;
  intersperse = separator: list:
    if length list < 2 then list
    else tail (concatMap (x: [ separator x ]) list);
}
