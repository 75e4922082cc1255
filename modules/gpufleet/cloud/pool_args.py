"""What ``GpuPool`` takes, as typed dictionaries.

`python -m tools.pool_args` writes this from the spec's models.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, Literal, Required, TypedDict


class AcceleratorRequestArgsDict(TypedDict, total=False):
    """Cards that the machine does not imply; ``model`` ends up as the catalogue's name."""

    model: Required[str]
    count: int


class AcceleratorRequirementArgsDict(TypedDict, total=False):
    """Which accelerators a node must have, at least."""

    vendor: Literal["nvidia", "amd"] | None
    model: str | None
    count: int


class ApplicationArgsDict(TypedDict, total=False):
    """Step three: what runs on the node."""

    volumes: Sequence[ApplicationVolumeArgsDict]
    container_files: Sequence[str]
    """compose or quadlet files of the project, installed as they are"""


class ApplicationVolumeArgsDict(TypedDict, total=False):
    """A folder for data that outlives containers: nvme on the node's own drives.

    ssd is on the boot disk of a machine that we own, and on a disk of its own in a cloud.
    """

    name: Required[str]
    """at most 40 lowercase letters, digits and hyphens, a letter first and no hyphen last"""
    size_gib: Required[int]
    kind: Literal["nvme", "ssd"]


class AwsAccountArgsDict(TypedDict, total=False):
    """Where AWS pools are built; without it, the caller's own credentials decide."""

    profile: str | None
    """the profile of ~/.aws/config whose credentials are used"""
    role_arn: str | None
    """the role that is assumed, with the profile's credentials or the caller's"""
    account_id: str | None
    """the only account in which anything is done; that of role_arn when left out"""


class AzureAccountArgsDict(TypedDict, total=False):
    """Where Azure pools are built; without it, the provider's own configuration decides."""

    subscription: Required[str]
    """a subscription id, a lowercase UUID"""


class BootDiskArgsDict(TypedDict, total=False):
    """The boot disk, always encrypted: gp3 on AWS, pd-balanced on GCP, Premium SSD on Azure."""

    size_gib: int
    kind: Literal["ssd"]


class CapacityBlockPurchaseArgsDict(TypedDict, total=False):
    """A Capacity Block of AWS: capacity for some days, paid before it starts.

    The owner has it already (``reservation``), or the stack buys a pinned ``offering``.
    """

    kind: Required[Literal["capacity_block"]]
    reservation: str | None
    """the cr- id of a Capacity Block that you have"""
    offering: str | None
    """the cb- id of an offering to buy"""
    buy: bool
    """true: buy the offering; without it nothing is bought"""


class CommittedPurchaseArgsDict(TypedDict, total=False):
    """On-demand nodes under a billing commitment that the owner has: it sets the price and holds no capacity.

    AWS calls it Savings Plan or Reserved Instance, Google committed use, Azure reserved VM instance.
    """

    kind: Required[Literal["committed"]]
    term: Required[Literal["1y", "3y"]]
    """of the commitment that the owner already has; gpufleet buys nothing"""


class CustomImageArgsDict(TypedDict, total=False):
    """A custom image: by its id, or the newest one with a name. Packer builds them (docs/images.md)."""

    id: str | None
    name: str | None
    """AWS: the prefix of image names; GCP: the image family; not on Azure"""
    owner: str
    """self, an AWS account, or a GCP project"""


class FlexStartPurchaseArgsDict(TypedDict, total=False):
    """Flex-start of Google's Dynamic Workload Scheduler: nodes start when there is room, for a limited time."""

    kind: Required[Literal["flex_start"]]
    max_run_hours: Required[float]
    """10 minutes to 7 days, in hours; then the nodes are deleted"""


class GcpAccountArgsDict(TypedDict, total=False):
    """Where GCP pools are built; without it, the provider's own configuration decides."""

    project: Required[str]
    """a project id, 6 to 30 lowercase letters, digits, hyphens"""
    service_account: str | None
    """identity of the nodes, e.g. to read a bucket; without it they have none"""


class GpuDriverSettingsArgsDict(TypedDict, total=False):
    """Which GPU driver a node gets."""

    vendor: Literal["auto", "nvidia", "amd", "none"]
    """auto: that of the node's cards; none: no driver is installed"""
    branch: str
    """auto, or a quoted branch like '570' or '6.4'"""
    module: Literal["auto", "open", "proprietary"]
    """NVIDIA's kernel module; auto: what the card needs"""


class HardwareProfileArgsDict(TypedDict, total=False):
    """Step one: what the node must be, and how its drives, memory and network are laid out."""

    machines: Sequence[str]
    """the machines that the profile is for; any machine if omitted"""
    accelerators: AcceleratorRequirementArgsDict | None
    storage: LocalDriveLayoutArgsDict
    hugepages: HugePagesArgsDict | None
    mtu: int | None


class HugePagesArgsDict(TypedDict, total=False):
    """Memory set aside in large pages at boot."""

    size: Literal["2M", "1G"]
    count: Required[int]


class LadderPurchaseArgsDict(TypedDict, total=False):
    """Several purchases, tried in order: each node is bought by the first rung that has capacity for it."""

    kind: Literal["ladder"]
    ladder: Required[
        Sequence[
            OnDemandPurchaseArgsDict
            | SpotPurchaseArgsDict
            | ReservedPurchaseArgsDict
            | CommittedPurchaseArgsDict
            | CapacityBlockPurchaseArgsDict
            | FlexStartPurchaseArgsDict
        ]
    ]
    """purchases in the order in which they are tried"""


class LocalDriveLayoutArgsDict(TypedDict, total=False):
    """What becomes of a node's local drives: one file system on one of them, or on all as RAID0."""

    layout: Literal["none", "single", "raid0"]
    mount: str
    """an absolute path of letters, digits, dots, hyphens, underscores"""
    filesystem: Literal["ext4", "xfs"]


class NodeCountArgsDict(TypedDict, total=False):
    """How many nodes. A plain number is a fixed count; a range is an elastic group."""

    min: Required[int]
    desired: int
    max: Required[int]


class NodeTemplateArgsDict(TypedDict, total=False):
    """A blueprint by steps, each named or inline; or short, with the keys of software and application in it."""

    hardware: str | HardwareProfileArgsDict | None
    software: str | SoftwareProfileArgsDict | None
    application: str | ApplicationArgsDict | None
    driver: GpuDriverSettingsArgsDict | None
    container_toolkit: bool | None
    volumes: Sequence[ApplicationVolumeArgsDict] | None
    container_files: Sequence[str] | None
    burn_in: Literal["quick", "standard", "soak"]


class OnDemandPurchaseArgsDict(TypedDict, total=False):
    """Pay as you go: no commitment, no eviction, capacity if there is any."""

    kind: Required[Literal["on_demand"]]


class ReservedPurchaseArgsDict(TypedDict, total=False):
    """An on-demand capacity reservation. It bills around the clock, used or not."""

    kind: Required[Literal["reserved"]]
    reservation: str
    """create, or the id of a reservation that exists"""
    term: Literal["1y", "3y"] | None
    """a commitment that the owner already has: it sets the price; gpufleet buys nothing"""


class SoftwareProfileArgsDict(TypedDict, total=False):
    """Step two: driver, CUDA or ROCm, container engine and toolkit."""

    driver: GpuDriverSettingsArgsDict
    cuda: str | None
    rocm: str | None
    container_engine: Literal["auto", "podman", "docker", "none"]
    """auto: docker for compose files, podman for quadlets or only the toolkit, else none"""
    container_toolkit: bool
    mig: str | Mapping[str, Any] | Sequence[Any] | None
    imex: bool
    """memory sharing between the nodes of an NVLink rack (GB200 NVL72)"""
    gds: bool
    """GPUDirect Storage, with its kernel module"""
    gdrcopy: bool
    """gdrcopy, from a repository that has its packages"""
    origin: Literal["auto", "distribution", "vendor"]
    """origin of the packages: the distribution, the vendor, or the driver plan's choice"""


class SpotInterruptionsArgsDict(TypedDict, total=False):
    """How interruptions affect the work on a pool; gives the cost of a useful hour of spot."""

    interruptions_per_month: float | None
    """interruptions of one node that runs all month, observed or assumed"""
    band: Literal["<5%", "5-10%", "10-15%", "15-20%"] | None
    """or the range in AWS's Spot Instance Advisor; above 20 % give interruptions_per_month"""
    checkpoint_minutes: Required[float]
    """work between checkpoints"""
    restart_minutes: Required[float]
    """minutes until a replacement works again; billed, but lost"""
    checkpoint_cost_minutes: float
    """minutes to write one checkpoint"""
    fallback_share: float | None
    """share of the work that runs on demand"""


class SpotPurchaseArgsDict(TypedDict, total=False):
    """Spare capacity that the cloud may take back."""

    kind: Required[Literal["spot"]]
    on_eviction: Literal["delete", "stop"]
    """what the cloud does to a node it takes back"""
    fallback: Literal["on_demand"] | None
    """what to use while there is not enough spot capacity: short for a ladder"""
    max_usd_per_hour: float | None
    """highest price per node; AWS and Azure only"""
    machines: Sequence[str]
    """other machines with the same GPUs that will do too, the preferred one first"""
    allocation: (
        Literal[
            "price-capacity-optimized", "capacity-optimized", "capacity-optimized-prioritized", "lowest-price"
        ]
        | None
    )
    """AWS: how a group chooses; price-capacity-optimized when left out"""
    restore_minutes: int | None
    """Azure: how long a scale set tries to restore evicted nodes"""
    work: SpotInterruptionsArgsDict | None
    """interruptions and the work that each one loses; for the cost of a useful hour"""


class SshAccessArgsDict(TypedDict, total=False):
    """Who may log in, and from where."""

    authorized_keys: Sequence[str]
    allowed_cidrs: Sequence[str]
    access: Literal["public", "private"]
    """public: nodes have public addresses, open to allowed_cidrs; private: none has one, and SSH goes
    through the cloud's own path (AWS Session Manager, Google IAP, Azure Bastion)
    """


class GpuPoolArgsDict(TypedDict, total=False):
    """The keyword arguments of ``GpuPool``: keys of a pool, and those of a fleet that it needs."""

    cloud: Required[Literal["aws", "gcp", "azure"]]
    region: Required[str]
    zones: Sequence[str]
    machine: Required[str]
    accelerators: AcceleratorRequestArgsDict | None
    count: Required[int | NodeCountArgsDict]
    purchase: Required[
        OnDemandPurchaseArgsDict
        | SpotPurchaseArgsDict
        | ReservedPurchaseArgsDict
        | CommittedPurchaseArgsDict
        | CapacityBlockPurchaseArgsDict
        | FlexStartPurchaseArgsDict
        | LadderPurchaseArgsDict
    ]
    fabric: Literal[
        "auto", "none", "efa", "infiniband", "gpudirect_tcpx", "gpudirect_tcpxo", "gpudirect_rdma"
    ]
    """auto: what the machine has, where a pool has several nodes"""
    hours_per_month: int | None
    """planned running hours; around the clock when left out"""
    disk: BootDiskArgsDict
    image: Literal["auto", "vendor", "base"] | CustomImageArgsDict
    """auto: suitable for the machine; vendor: with drivers; base: the plain system; or your own image"""
    group: bool
    """the nodes belong to one group of the cloud's, which replaces lost ones, instead of being resources one
    by one; elastic counts always do
    """
    first_boot: Literal["login", "packages"]
    """what cloud-init does: let the keys in, or also install what the template will need"""
    template: str | None
    owner: Required[str]
    """what every cloud takes as a label: lowercase, digits, hyphens, underscores"""
    expires: str | date | None
    """after this day a sweep lists what is left of the stack; never when left out"""
    ssh: SshAccessArgsDict
    aws: AwsAccountArgsDict | None
    gcp: GcpAccountArgsDict | None
    azure: AzureAccountArgsDict | None
    hardware_profiles: Mapping[str, HardwareProfileArgsDict]
    software_profiles: Mapping[str, SoftwareProfileArgsDict]
    applications: Mapping[str, ApplicationArgsDict]
    templates: Mapping[str, NodeTemplateArgsDict]
