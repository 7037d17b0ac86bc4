{
  avx2 = { system = "x86_64-linux"; flags = [ "-mavx2" "-mfma" "-mf16c" ]; };
  armv9 = { system = "aarch64-linux"; flags = [ "-march=armv9-a+sve2" ]; };
}
