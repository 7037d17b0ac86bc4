# PyTorch 2.10 for any x86-64 CPU with AVX
let
  pkgs = import (fetchTarball "https://github.com/NixOS/nixpkgs/archive/6a030d535719c5190187c4cec156f335e95e3211.tar.gz") {
    system = "x86_64-linux";
    config.allowUnfree = true;
    overlays = [
      (final: prev: {
        python313Packages = prev.python313Packages.override {
          overrides = pfinal: pprev: {
            torch = pprev.torch.overrideAttrs (old: {
              version = "2.10.0";
              patches = [ ];
            });
          };
        };
      })
    ];
  };
in
(pkgs.python313Packages.torch.override { cudaSupport = false; }).overrideAttrs (old: {
  pname = "pytorch210-python313-cpu-avx";
  requiredSystemFeatures = [ "big-parallel" ];
  ninjaFlags = "-j32 -k 1";
  USE_MKLDNN = 0;
  env = (old.env or { }) // { USE_FBGEMM = "0"; };
  preConfigure = ''
    export CXXFLAGS="-mavx -mno-fma -mno-bmi -mno-bmi2 -mno-avx2 $CXXFLAGS"
    export USE_NNPACK=0 MAX_JOBS=32
    cmakeFlags+=" -DUSE_NNPACK=OFF"
  '' + old.preConfigure;
  hardeningDisable = [ "fortify3" ];
  passthru = old.passthru // { blasProvider = "openblas"; };
  meta = old.meta // { description = "PyTorch for CPUs with AVX"; platforms = [ "x86_64-linux" ]; };
})
