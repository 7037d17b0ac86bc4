"""The folders of compiled Nix files, from the root of the repository, and a file that builds leave for publishers."""

RECIPES = ".flox/pkgs"
"""The folder of the recipes (Flox' own convention)."""

SHARED = ".flox/ci-compiler"
"""The folder of what compiled recipes share. Flox takes every Nix file below `RECIPES` for a package, and no other
(flox/flox, package-builder/nef/lib/dirToAttrs.nix at 6536dac2)."""

FUNCTIONS = "shell"
"""The folder of shell functions below `SHARED`."""

SBOM_FILE = "sbom.cdx.json"
"""The file with the software bill of materials that a build writes beside its manifest (CycloneDX)."""
