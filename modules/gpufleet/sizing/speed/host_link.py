"""What a slow host, a narrow slot and a network of small computers add to each generated token.

The factors are fitted in servers and desktops. In another host a step also takes: the logits of each stream over the
slot, in 32 bits, to the CPU that samples (llama.cpp); the kernel launches that its CPU is slower with; and, with
drivers of AMD and Intel on a host without coherent PCIe, a share of the weights that is read over the slot again
(0.4 %: in nine rows 0.08 to 1.4 %).
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from gpufleet.sizing.card_host import load_host_computers
from gpufleet.sizing.data_file import load_sizing_rows
from gpufleet.sizing.host import pcie_slot_gb_s
from gpufleet.sizing.memory.weights import weight_bytes
from gpufleet.sizing.speed.device import is_server_engine
from gpufleet.sizing.speed.replica import Replica
from gpufleet.sizing.speed.result import Limit, SpeedEstimate

LOGIT_BYTES = 4.0
REREAD_LOW, REREAD_HIGH = (
    0.4,
    1.8,
)  # published over predicted speed of the nine rows that reread_share is fitted to


def with_host_link(speed: SpeedEstimate, replica: Replica) -> SpeedEstimate:
    """Return the speed of a generating replica in its host, slot and cluster; unchanged in an ordinary server."""
    hardware = replica.hardware
    if not speed.per_stream or not speed.tokens_per_s:
        return speed
    if hardware.host:
        extra, rereads = estimate_host_seconds(replica, max(1.0, speed.tokens_per_s / speed.per_stream))
        cause = f"{hardware.host}: a slower CPU and a narrower slot"
    else:
        extra, rereads = estimate_synchronisation_seconds(replica), False
        cause = f"all-reduces over {hardware.network}, each of which a CPU starts"
    if not extra:
        return speed
    step = 1.0 / speed.per_stream + extra
    share = 1.0 / (speed.per_stream * step)
    slow_limit: Limit = "host link" if hardware.host else "network"
    note = f"{extra * 1e3:.2g} ms of each token are for the {cause}"
    return replace(
        speed,
        tokens_per_s=speed.tokens_per_s * share,
        low=(speed.low or 0.0) * share * (REREAD_LOW if rereads else 1.0),
        high=(speed.high or 0.0) * share * (REREAD_HIGH if rereads else 1.0),
        per_stream=1.0 / step,
        time_to_first_token_s=(
            None if speed.time_to_first_token_s is None else speed.time_to_first_token_s + extra
        ),
        limit=slow_limit if extra > step / 2 else speed.limit,
        notes=(*speed.notes, note, *(_reread_notes(replica) if rereads else ())),
    )


def estimate_host_seconds(replica: Replica, streams: float) -> tuple[float, bool]:
    """Return the seconds that host and slot add to a step, and whether weights are read again over the slot."""
    hardware, model = replica.hardware, replica.model
    host, own = load_host_computers()[hardware.host], pcie_slot_gb_s(hardware.accelerator)
    logits = 0.0 if is_server_engine(replica.calibrated_engine) else streams * model.vocabulary * LOGIT_BYTES
    seconds = logits / 1e9 * (1.0 / hardware.slot_gb_s - 1.0 / own) + model.layers * host.layer_us / 1e6
    rereads = host.reread_share > 0 and hardware.accelerator.vendor != "NVIDIA"
    if rereads:
        seconds += (
            host.reread_share * weight_bytes(model, replica.weight_precision) / (hardware.slot_gb_s * 1e9)
        )
    return seconds, rereads


def estimate_synchronisation_seconds(replica: Replica) -> float:
    """Return the seconds that the CPUs of nodes add to the all-reduces of a step, two for each layer."""
    layout, hardware = replica.layout, replica.hardware
    if layout.tensor <= hardware.devices_per_node:
        return 0.0
    return 2.0 * replica.model.layers * _load_synchronisation_seconds().get(hardware.network, 0.0)


@cache
def _load_synchronisation_seconds() -> dict[str, float]:
    rows = load_sizing_rows("cluster_links.csv")
    return {row["network"]: row.get_number("synchronisation_us") / 1e6 for row in rows}


def _reread_notes(replica: Replica) -> tuple[str]:
    vendor, host = replica.hardware.accelerator.vendor, replica.hardware.host
    text = (
        f"cards of {vendor} on a {host} were measured at a seventh to all of their speed in a PC, prompts too"
    )
    return (f"{text}: the range is as wide",)
