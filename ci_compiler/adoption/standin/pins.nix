# What is known of a nixpkgs revision: the default Python and CUDA, and the releases that its packages are of. A recipe
# that sets no version of its own has these. An unknown revision is taken for `newest`.
rec {
  newest = "6a030d535719c5190187c4cec156f335e95e3211";
  revisions = {
    fe5e41d7ffc0421f0913e8472ce6238ed0daf8e3 = {
      python = "3.13";
      cuda = "12.8";
      versions = { torch = "2.8.0"; torchvision = "0.23.0"; torchaudio = "2.8.0"; };
    };
    ${newest} = {
      python = "3.13";
      cuda = "12.8";
      versions = { torch = "2.9.1"; torchvision = "0.24.1"; torchaudio = "2.9.1"; };
    };
  };
  of = revision: revisions.${revision} or revisions.${newest};

  # The release that a `cudaPackages_<major>` stands for.
  cudaOfMajor = { "10" = "10.2"; "11" = "11.8"; "12" = "12.8"; "13" = "13.0"; };
}
