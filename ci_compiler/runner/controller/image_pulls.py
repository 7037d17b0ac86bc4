"""When to pull an image: a tag may name a newer one by now, to which the next job then moves."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

FRESH = 3600.0
"""Seconds after which an image that a tag names is pulled again."""


@dataclass(slots=True)
class ImagePulls:
    """When images were pulled; `clock` counts seconds."""

    clock: Callable[[], float] = time.monotonic
    _last: dict[str, float] = field(default_factory=dict)

    def due(self, image: str, *, here: bool) -> bool:
        """Whether to pull `image` now: never if it is `here` and cannot change, as with a digest or a local name."""
        fixed = "@" in image or image.startswith("localhost/")
        now, last = self.clock(), self._last.get(image)
        if here and (fixed or (last is not None and now - last < FRESH)):
            return False
        self._last[image] = now
        return True
