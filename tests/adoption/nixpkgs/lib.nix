{ inherit (builtins) concatStringsSep;
  concatMapStringsSep = separator: function: items: builtins.concatStringsSep separator (map function items);
  unique = builtins.foldl' (seen: one: if builtins.elem one seen then seen else seen ++ [ one ]) [ ];
  getBin = package: package;
}
