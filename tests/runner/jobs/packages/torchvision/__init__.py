"""A stand-in for TorchVision, on the stand-in for PyTorch."""

import torch

__version__ = torch.BEHAVIOUR.get("torchvision", "0.23.0")
