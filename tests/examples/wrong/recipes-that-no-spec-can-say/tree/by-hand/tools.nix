{ symlinkJoin }: symlinkJoin { name = "tools"; paths = [ ]; }
