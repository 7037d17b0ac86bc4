# PyTorch checks the compiler here.
