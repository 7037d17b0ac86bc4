"""How long a stage may take."""

RESERVE = 120.0
"""Seconds that a stage reserves to report a failure before GitHub ends the job."""


def job_seconds(minutes: int) -> float:
    """The time limit, in seconds, of a stage whose job GitHub ends after `minutes`."""
    return max(60.0, minutes * 60 - RESERVE)
