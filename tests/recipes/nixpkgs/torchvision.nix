{ buildPythonPackage, torch }:
buildPythonPackage {
  pname = "torchvision";
  version = "0.23.0";
  dependencies = [ torch ];
}
