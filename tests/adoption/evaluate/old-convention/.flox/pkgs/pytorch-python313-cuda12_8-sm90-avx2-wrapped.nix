# A one-off around another recipe, which it gets as an argument
{ symlinkJoin, makeWrapper, pytorch-python313-cpu-avx2 }:
symlinkJoin {
  name = "pytorch-python313-cuda12_8-sm90-avx2-wrapped";
  paths = [ pytorch-python313-cpu-avx2 ];
  nativeBuildInputs = [ makeWrapper ];
}
