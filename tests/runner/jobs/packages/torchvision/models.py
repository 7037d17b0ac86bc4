from typing import Any

from torch import Tensor


class Model:
    def same(self, *_: Any) -> Any:
        return self

    eval = double = float = to = same

    def __call__(self, image: Tensor) -> Tensor:
        return Tensor((2, 1000), image.value, image.kind, image.device).wrong()


def resnet18(*, weights: None) -> Model:
    assert weights is None
    return Model()
