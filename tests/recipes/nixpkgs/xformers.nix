{ buildPythonPackage, torch }:
buildPythonPackage {
  pname = "xformers";
  version = "0.0.30";
  dependencies = [ torch ];
}
