# Builds PyTorch for one variant. `cuda` and `capability` are empty for a CPU variant.
{
  name,
  nixpkgs,
  system,
  python,
  cuda,
  capability,
  flags,
  jobs,
}:
let
  gpu = capability != "";
  pkgs =
    import (builtins.fetchTarball "https://github.com/NixOS/nixpkgs/archive/${nixpkgs}.tar.gz")
      {
        inherit system;
        config = {
          allowUnfree = true; # CUDA
          cudaSupport = gpu;
        };
        overlays = if gpu then [ (final: _: { cudaPackages = final.${cuda}; }) ] else [ ];
      };
  torch = pkgs.${"${python}Packages"}.torch.override {
    cudaSupport = gpu;
    gpuTargets = if gpu then [ capability ] else [ ];
  };
in
torch.overrideAttrs (old: {
  pname = name;
  requiredSystemFeatures = [ "big-parallel" ];
  preConfigure = (old.preConfigure or "") + ''
    export CFLAGS="${flags} $CFLAGS" CXXFLAGS="${flags} $CXXFLAGS" MAX_JOBS=${jobs}
  '';
})
