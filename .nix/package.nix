# ci-compile and ci-runner from this checkout. `nixpkgs.callPackage ./package.nix { }`.
{
  lib,
  python3Packages,
  git,
}:
let
  found = builtins.match ''.*__version__ = "([^"]+)".*'' (builtins.readFile ../ci_compiler/__init__.py);
in
python3Packages.buildPythonApplication {
  pname = "ci-compiler";
  version = builtins.head found;
  pyproject = true;
  src = lib.fileset.toSource {
    root = ../.;
    fileset = lib.fileset.unions [
      ../LICENSE
      ../README.md
      ../ci_compiler
      ../pyproject.toml
      ../runner-images
    ];
  };
  build-system = [ python3Packages.hatchling ];
  dependencies = with python3Packages; [
    cyclonedx-python-lib
    jsonschema
    pygithub
    pyyaml
    rich
    ruamel-yaml
  ];
  # Only the commands that compare revisions need git. Nix and Flox stay those of the machine.
  makeWrapperArgs = [
    "--suffix"
    "PATH"
    ":"
    "${git}/bin"
  ];
  pythonImportsCheck = [ "ci_compiler.cli.compile" ];
  meta = {
    description = "Compiles one short spec into GitHub Actions workflows and Nix recipes for fleets of GPU packages";
    homepage = "https://github.com/flox-cuda/ci-compiler";
    license = lib.licenses.mit;
    mainProgram = "ci-compile";
    platforms = lib.platforms.unix;
  };
}
