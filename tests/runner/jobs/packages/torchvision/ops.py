from types import SimpleNamespace
from typing import Any

from torch import BEHAVIOUR, Tensor


def nms(*_: Any) -> Any:
    return SimpleNamespace(tolist=lambda: BEHAVIOUR.get("nms", [1, 2]))


def roi_align(image: Tensor, _: Tensor, **__: Any) -> Tensor:
    return Tensor((1, 1, 2, 2), image.value, image.kind, image.device).wrong()
