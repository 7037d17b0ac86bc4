{ inherit (builtins) concatStringsSep; }
