"""What every ready publisher can do, and how files are published by it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Protocol

from ci_compiler.codes import Code
from ci_compiler.errors import failure
from ci_compiler.publishing.plan import (
    HeldFile,
    HeldVersion,
    StagedVariant,
    Upload,
    UploadPlan,
    plan_upload,
    refusal,
    taken,
)


class Target(Protocol):
    """A place where files are published. Every method raises StageError or OSError if the place fails or refuses.

    The methods that have a body are those of a place that shows each file at once.
    """

    def held(self, wanted: Sequence[Upload]) -> Mapping[str, HeldFile]:
        """What it holds under the names of `wanted`."""

    def put(self, file: Upload) -> None:
        """Uploads a file, which users do not see yet where the target can hide it."""

    def stage(self, wanted: Sequence[Upload]) -> None:
        """Notes that all files of a variant are uploaded; `wanted` are all of them."""

    def staged(self, version: str, variants: Collection[str]) -> Mapping[str, StagedVariant]:  # noqa: ARG002
        """Those of `variants`, and others of the same release that it knows of, whose files are all uploaded.

        None where it knows no variants.
        """
        return {}

    def finish(self, version: str, variants: Collection[str]) -> None:
        """Shows the uploaded files of `variants` to users. What is shown already stays as it is."""

    def unfinished(self, version: str, variant: str) -> bool:  # noqa: ARG002
        """Whether publishing the variant broke off after some users could see its files; `finish` shows them to all.

        False where all users see the same.
        """
        return False

    def versions(self) -> Collection[HeldVersion]:
        """The versions that users see, by variant where it knows the variants; none where it lists no versions."""
        return ()

    def needed(self, gone: Collection[HeldVersion]) -> Collection[HeldVersion]:  # noqa: ARG002
        """Those of the versions `gone` that what else it holds needs; none where it does not know what needs what."""
        return ()

    def remove_abandoned(self, before: datetime) -> int:  # noqa: ARG002
        """Removes what was uploaded before a time and never shown; returns how many things these were.

        None where what is uploaded is shown.
        """
        return 0

    def withdraw(self, versions: Collection[HeldVersion], because: str) -> None:
        """Marks versions as not to be installed, with the reason; with '' as reason, removes them."""


@contextmanager
def place_failures(variant: str) -> Iterator[None]:
    """Turns OSError, which says that a place failed, into StageError about `variant`."""
    try:
        yield
    except OSError as error:
        raise failure(variant, Code.PUBLISH_FAILED, f"the place to publish to failed: {error}") from None


def planned(target: Target, wanted: Sequence[Upload]) -> UploadPlan:
    """What there is to do for `wanted`.

    Raises StageError for a file that is of another variant, or is published with another content.
    """
    held, first = target.held(wanted), wanted[0]
    for file in wanted:
        if (there := held.get(file.name)) and there.variant not in {"", file.variant}:
            raise failure(file.variant, Code.ADDRESS_SHARED, taken(file.name, there.variant))
    plan = plan_upload({file.name: file.digest for file in wanted}, held)
    if plan.refused:
        message = refusal(plan.refused, first.version, held[plan.refused[0]].commit, first.commit)
        raise failure(first.variant, Code.PUBLISHED_OTHERWISE, message)
    return plan


def upload(target: Target, wanted: Sequence[Upload], say: Callable[[str], object]) -> UploadPlan:
    """Uploads what the target lacks of a variant's files, without showing it; an upload that broke off is resumed."""
    plan = planned(target, wanted)
    for name in plan.present:
        say(f"{name}: published already")
    for name in plan.resumed:
        say(f"{name}: uploaded before")
    for file in wanted:
        if file.name in plan.put:
            say(f"{file.name}: {'uploaded again' if file.name in plan.replaced else 'uploaded'}")
            target.put(file)
    if len(plan.present) < len(wanted):
        target.stage(wanted)
    return plan


def publish(target: Target, wanted: Sequence[Upload], say: Callable[[str], object]) -> None:
    """Uploads the files of a variant and shows them."""
    upload(target, wanted, say)
    target.finish(wanted[0].version, [wanted[0].variant])
