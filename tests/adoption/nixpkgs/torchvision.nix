{ lib, mkDerivation, config, torch }:
mkDerivation {
  pname = "torchvision";
  version = "0.23.0";
  propagatedBuildInputs = [ torch ];
}
