{ ... }:
import ./lib/mkFlashAttn.nix {
  name = "@name@";
  sm = "@capabilty@";
}
