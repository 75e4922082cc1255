"""The comparison and its accelerators."""

from __future__ import annotations

from dataclasses import dataclass

from gpufleet.catalog import Accelerator
from gpufleet.catalog.purchase_price import PurchasePrice
from gpufleet.sizing.plans.result import SizingPlan
from gpufleet.sizing.workload import Workload

SECONDS_PER_HOUR = 3600
MILLION = 1e6


@dataclass(frozen=True)
class DevicePrice:
    """The cheapest known price of one device per hour, as part of a cloud's machine."""

    usd_per_hour: float
    purchase: str
    cloud: str
    region: str
    machine: str
    as_of: str | None
    source: str


@dataclass(frozen=True)
class ComparedAccelerator:
    """One accelerator. ``plan`` is the smallest replica that fits; without one, ``rejection_reason`` says why.

    ``prices`` are the cheapest of each purchase kind, cheapest first; spot and prices older than 180 days are last.
    ``purchase_price`` is what one costs to buy.
    """

    accelerator: Accelerator
    prices: tuple[DevicePrice, ...] = ()
    plan: SizingPlan | None = None
    rejection_reason: str = ""
    purchase_price: PurchasePrice | None = None

    @property
    def name_with_count(self) -> str:
        """Return the name, with the device count if it is above one."""
        count = self.plan.devices if self.plan else 1
        return f"{count} x {self.accelerator.name}" if count > 1 else self.accelerator.name

    @property
    def cheapest_device_price(self) -> DevicePrice | None:
        """Return the cheapest known price on which a service can be built, else the cheapest."""
        return self.prices[0] if self.prices else None

    @property
    def replica_usd_per_hour(self) -> float | None:
        """Return the cost of the replica per hour at that price."""
        return (
            self.cheapest_device_price.usd_per_hour * self.plan.devices
            if self.cheapest_device_price and self.plan
            else None
        )

    @property
    def tokens_per_joule(self) -> float | None:
        """Return tokens per joule: tokens per second and watt."""
        if self.plan is None or not self.plan.total_watts or self.plan.tokens_per_s is None:
            return None
        return self.plan.tokens_per_s / self.plan.total_watts

    @property
    def tokens_per_usd(self) -> float | None:
        """Return tokens per US dollar."""
        usd = self.replica_usd_per_hour
        if self.plan is None or not usd or self.plan.tokens_per_s is None:
            return None
        return self.plan.tokens_per_s * SECONDS_PER_HOUR / usd


@dataclass(frozen=True)
class AcceleratorComparison:
    """Accelerators in the requested order, and their workload."""

    accelerators: tuple[ComparedAccelerator, ...]
    workload: Workload | None = None


def peak_tflops_and_format(accelerator: Accelerator, precision: str) -> tuple[float | None, str]:
    """Return the dense peak rate for weights of that precision, and the number format of that rate.

    Accelerators without the format use their fastest wider format.
    """
    ladder = {
        "fp8": ("fp8",),
        "fp4": ("fp4", "fp8"),
        "int8": ("int8",),
    }.get(precision, ())
    known_rates = {
        name: rate for name, rate in dense_tera_ops_by_format(accelerator).items() if rate is not None
    }
    for name in (*ladder, "bf16"):
        if name in known_rates and precision != "f32":
            return known_rates[name], name
    fallback_formats = (
        ("fp32",) if precision == "f32" else ("fp16", "fp32")
    )  # old cards are slower in 16 bits than in 32 bits
    best = max(fallback_formats, key=lambda name: known_rates.get(name, 0.0))
    return known_rates.get(best), best


def dense_tera_ops_by_format(accelerator: Accelerator) -> dict[str, float | None]:
    """Return the dense rates by format, in 10^12 operations per second."""
    return {
        "fp32": accelerator.fp32_tflops,
        "fp16": accelerator.fp16_tflops_dense,
        "bf16": accelerator.bf16_tflops_dense,
        "fp8": accelerator.fp8_tflops_dense,
        "fp4": accelerator.fp4_tflops_dense,
        "int8": accelerator.int8_tops_dense,
    }


def roofline_ridge_point(accelerator: Accelerator, precision: str = "bf16") -> float | None:
    """Return the ridge point of the roofline in operations per byte."""
    peak, _ = peak_tflops_and_format(accelerator, precision)
    return peak * 1e12 / (accelerator.bandwidth_gb_s * 1e9) if peak and accelerator.bandwidth_gb_s else None
