(final: prev: {
  pythonPackagesExtensions = prev.pythonPackagesExtensions ++ [
    (pfinal: pprev: {
      torch = pprev.torch.overrideAttrs (old: rec {
        version = @nix-version@;
        src = @source@;
        patches = [ ];
      });
    })
  ];
})
