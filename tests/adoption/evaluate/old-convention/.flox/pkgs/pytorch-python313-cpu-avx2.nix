{ pkgs ? import <nixpkgs> { config.allowUnfree = true; } }:
with pkgs;
python313Packages.torch.overridePythonAttrs (old: {
  pname = "pytorch-python313-cpu-avx2";
  meta = old.meta // (with lib; { license = licenses.bsd3; maintainers = with maintainers; [ someone ]; platforms = platforms.x86_64; });
})
