# ci-compiler itself: `flox build ci-compiler`, `flox publish ci-compiler`.
{ callPackage }: callPackage ../../../.nix/package.nix { }
