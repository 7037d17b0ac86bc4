"""A stand-in for TorchAudio, on the stand-in for PyTorch."""

import torch

__version__ = torch.BEHAVIOUR.get("torchaudio", "2.8.0")
