"""Proves a build on a GPU, with a PyTorch for ROCm, which calls its devices `cuda` like one for CUDA."""

import my_kernels  # noqa: F401
import torch

if not torch.version.hip:
    raise SystemExit("this PyTorch is not built for ROCm")
print(torch.cuda.get_device_properties(0).gcnArchName)

# Call your kernels here, and compare what they compute with the same on the CPU.
left = torch.rand(64, 64, dtype=torch.float64)
if not torch.allclose((left.cuda() @ left.cuda()).cpu(), left @ left):
    raise SystemExit("the GPU computes another product than the CPU")
