# Arguments: pkgs/development/python-modules/onnxruntime/default.nix, nixpkgs 0145c6da2896513d94440e7fb41c11487aa3de16.
{
  lib, stdenv, buildPythonPackage, onnxruntime, autoPatchelfHook, onednn, re2, openvino, coloredlogs, numpy, packaging,
}:
buildPythonPackage {
  inherit (onnxruntime) pname version;
  buildInputs = [ onnxruntime ];
  passthru = { inherit onnxruntime; };
}
