# PyTorch @version@ for @gpu@ and @isa@.
{ ... }:
import ./lib/pytorch.nix {
  name = "@name@";
  nixpkgs = "@nixpkgs@";
  system = "@system@";
  python = "@python-tag@";
  cuda = "@cuda-packages@";
  capability = "@capability@";
  flags = "@flags@";
  jobs = "@jobs@";
}
