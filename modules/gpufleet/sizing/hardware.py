"""Hardware for a workload: devices of one kind, their interconnect and their offers."""

from __future__ import annotations

from typing import Literal

from gpufleet.catalog import Accelerator
from gpufleet.quick_dataclass import dataclass

Split = Literal["none", "tensor", "layer"]
Origin = Literal["cloud", "rack", "workstation", "accelerator"]


@dataclass(frozen=True)
class HardwareOffer:
    """A way to buy the hardware, and the price of one node per hour."""

    cloud: str  # aws, gcp, azure, onprem; "" for a bare accelerator
    region: str
    purchase: str  # on_demand, spot, reserved_1y, reserved_3y, owned
    usd_per_hour: float | None
    as_of: str | None = None
    source: str = ""


@dataclass(frozen=True)
class Hardware:
    """Nodes of one kind. Link speeds are per device and direction, in GB/s; 0 where devices have no link.

    ``node_limit`` is how many nodes there are (a rack's blades), None without a limit.
    ``peer_access``: devices read each other's memory without the host (stock GeForce drivers do not).
    ``origin``: a cloud machine, an owned rack or workstation, or a bare accelerator in its default host
    (``host_source``).
    """

    name: str
    accelerator: Accelerator
    devices_per_node: int = 1
    node_limit: int | None = None
    link_gb_s: float = 0.0
    link: str = ""  # nvlink, infinity_fabric, pcie, ici, ...
    network_gb_s: float = 0.0
    peer_access: bool = True
    unified: bool = False  # one memory for host and accelerator (Apple, GB10, boards)
    host_memory_gib: float | None = None
    host_watts: float = 0.0  # of one node without its devices
    offers: tuple[HardwareOffer, ...] = ()
    origin: Origin = "accelerator"
    owner: str = ""  # the name of the rack or workstation that it is part of
    machine: str = ""  # the machine's name in its cloud or, if owned, in the catalogue
    share: float = 1.0  # fraction of a card that the machine has (vGPU sizes)
    network: str = ""  # what the nodes are joined with: EFA, InfiniBand, Ethernet
    attached_card: str = (
        ""  # the cloud's card that is attached to the machine and has a price of its own: T4, V100
    )
    slot_gb_s: float = 0.0  # of a card's slot in a host of one's own, 0: the slot that the card is made for
    host: str = ""  # a host of host_computers.csv
    host_source: str = ""  # source of the host's device count, network and memory


@dataclass(frozen=True)
class ParallelLayout:
    """How one replica is spread over ``tensor * pipeline * data`` devices.

    ``split`` is how the devices of an inference share the work: tensor (each holds a part of every
    layer) or layer (each holds whole layers; capacity, not speed). ``expert`` is the expert-parallel share.
    ``shards``: over how many of the data-parallel devices one copy of a training's states is spread, 0 for all;
    fewer is hybrid sharding (FSDP HYBRID_SHARD): several full copies that all-reduce their gradients.
    """

    nodes: int = 1
    devices: int = 1
    tensor: int = 1
    pipeline: int = 1
    data: int = 1
    expert: int = 1
    split: Split = "none"
    shards: int = 0
