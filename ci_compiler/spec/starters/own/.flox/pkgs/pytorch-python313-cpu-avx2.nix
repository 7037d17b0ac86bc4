# PyTorch 2.8.0 for any CPU with AVX2.
{ ... }:
let
  pkgs =
    import
      (builtins.fetchTarball "https://github.com/NixOS/nixpkgs/archive/fe5e41d7ffc0421f0913e8472ce6238ed0daf8e3.tar.gz")
      { system = "x86_64-linux"; };
in
pkgs.python313Packages.torch.overrideAttrs (old: {
  pname = "pytorch-python313-cpu-avx2";
  requiredSystemFeatures = [ "big-parallel" ];
  preConfigure = (old.preConfigure or "") + ''
    export CFLAGS="-mavx2 -mfma -mf16c $CFLAGS" CXXFLAGS="-mavx2 -mfma -mf16c $CXXFLAGS" MAX_JOBS=32
  '';
})
