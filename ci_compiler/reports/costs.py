"""What machine-hours and hosted minutes cost, by the prices of the spec: exact decimal numbers, rounded when shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from ci_compiler.spec.model import Spec

HOSTED_JOBS = 2
"""The jobs of a shard's run on machines hosted by GitHub: the selection and the verdict.

Neither takes more than a minute, and GitHub counts each as a full one.
"""

_CENT = Decimal("0.01")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """What something costs: the machines of each pool, and the minutes of hosted machines."""

    currency: str
    machines: Mapping[str, Decimal]
    hosted_minutes: int
    hosted: Decimal

    @property
    def total(self) -> Decimal:
        """The whole amount."""
        return sum(self.machines.values(), self.hosted)

    def shown(self, amount: Decimal) -> str:
        """`1,234.50 EUR`."""
        return f"{rounded(amount):,} {self.currency}"

    def __str__(self) -> str:
        """`1,234.50 EUR`, with the part of hosted minutes where they have a price."""
        minutes = f", {self.shown(self.hosted)} of it for {self.hosted_minutes:,} hosted minutes" if self.hosted else ""
        return f"{self.shown(self.total)}{minutes}"


def bill_of(spec: Spec, seconds: Mapping[str, int], runs: int) -> Bill | None:
    """What machines cost that work for `seconds`, by pool, in `runs` runs of shards; None without prices."""
    prices = spec.prices
    if prices is None:
        return None
    minutes = runs * HOSTED_JOBS
    return Bill(
        currency=prices.currency,
        machines={pool: machine_price(spec, pool, own) for pool, own in seconds.items()},
        hosted_minutes=minutes,
        hosted=minutes * Decimal(prices.hosted_minute),
    )


def machine_price(spec: Spec, pool: str, seconds: int) -> Decimal:
    """What a machine of `pool` costs that works for `seconds`; 0 without a price.

    In dollars, GitHub's own machines have its price per minute, where the spec gives none.
    """
    prices = spec.prices
    if prices is None or (prices.currency != "USD" and pool not in prices.machine_hour):
        return Decimal(0)
    if pool in prices.machine_hour:
        return Decimal(prices.machine_hour[pool]) * seconds / 3600
    label = next((other.hosted for other in spec.pools if other.name == pool), "")
    if not label:
        return Decimal(0)
    from ci_compiler.spec.open_hardware import hosted  # few specs have such pools

    return Decimal(str(hosted()[label]["minute"])) * seconds / 60


def rounded(amount: Decimal) -> Decimal:
    """An amount to the hundredth."""
    return amount.quantize(_CENT, ROUND_HALF_UP) + 0  # so that there is no -0.00


def bill_row(bill: Bill) -> dict[str, Any]:
    """A bill as JSON; amounts are text, as a JSON number would not be exact."""
    machines = {pool: str(rounded(amount)) for pool, amount in bill.machines.items()}
    amounts = {"hosted": str(rounded(bill.hosted)), "total": str(rounded(bill.total))}
    return asdict(bill) | {"machines": machines} | amounts
