(final: prev: {
  rocmPackages =
    let
      has = prev.rocmPackages.clr.version or "@toolkit@";
    in
    if prev.lib.hasPrefix "@toolkit@." "${has}." then
      prev.rocmPackages
    else
      throw "this nixpkgs has ROCm ${has}, and the spec says @toolkit@";
})
