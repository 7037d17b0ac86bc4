# PyTorch 2.8.0 with CUDA 12.8 for Hopper (H100, H200) and any CPU with AVX2.
{ ... }:
let
  pkgs =
    import
      (builtins.fetchTarball "https://github.com/NixOS/nixpkgs/archive/fe5e41d7ffc0421f0913e8472ce6238ed0daf8e3.tar.gz")
      {
        system = "x86_64-linux";
        config = {
          allowUnfree = true; # CUDA
          cudaSupport = true;
        };
        overlays = [ (final: _: { cudaPackages = final.cudaPackages_12_8; }) ];
      };
  torch = pkgs.python313Packages.torch.override {
    cudaSupport = true;
    gpuTargets = [ "9.0" ];
  };
in
torch.overrideAttrs (old: {
  pname = "pytorch-python313-cuda12_8-sm90-avx2";
  requiredSystemFeatures = [ "big-parallel" ];
  preConfigure = (old.preConfigure or "") + ''
    export CFLAGS="-mavx2 -mfma -mf16c $CFLAGS" CXXFLAGS="-mavx2 -mfma -mf16c $CXXFLAGS" MAX_JOBS=32
  '';
})
