"""The spec: the keys and values of ``gpufleet:fleet`` in a stack."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Annotated, Any, Literal, Self

from pydantic import Field, IPvAnyNetwork

from gpufleet.fleet.account import AwsAccount, AzureAccount, GcpAccount, NamedAccount
from gpufleet.fleet.application import Application
from gpufleet.fleet.container_file import ContainerFile
from gpufleet.fleet.frozen_model import FrozenModel, Name, Owner, StrictInt
from gpufleet.fleet.hardware import HardwareCost
from gpufleet.fleet.image import Image
from gpufleet.fleet.pool_request import AttachedAccelerators, CloudName, MonthlyBudget, NodeCount
from gpufleet.fleet.profile import HardwareProfile, SoftwareProfile
from gpufleet.fleet.public_key import PublicKey
from gpufleet.fleet.purchase import Purchase
from gpufleet.fleet.rack import Rack
from gpufleet.fleet.template import STEPS, Blueprint, NodeTemplate


class SshAccess(FrozenModel):
    """Who may log in, and from where."""

    authorized_keys: tuple[PublicKey, ...] = ()
    allowed_cidrs: tuple[IPvAnyNetwork, ...] = ()
    access: Annotated[
        Literal["public", "private"],
        Field(
            description="public: nodes have public addresses, open to allowed_cidrs; private: none has one, and SSH "
            "goes through the cloud's own path (AWS Session Manager, Google IAP, Azure Bastion)"
        ),
    ] = "public"

    @property
    def has_public_source(self) -> bool:
        """Return whether SSH comes from public networks; private ones come by VPN or peering."""
        return any(block.is_global for block in self.allowed_cidrs)


class BootDisk(FrozenModel):
    """The boot disk, always encrypted: gp3 on AWS, pd-balanced on GCP, Premium SSD on Azure."""

    size_gib: Annotated[StrictInt, Field(ge=30, le=16384)] = 100
    kind: Literal["ssd"] = "ssd"


class Pool(FrozenModel):
    """Nodes of one machine type, in one region of one cloud, bought in one way."""

    name: Name
    cloud: CloudName
    region: str
    zones: tuple[str, ...] = ()
    machine: str
    accelerators: AttachedAccelerators = None
    count: NodeCount
    purchase: Purchase
    fabric: Annotated[
        Literal["auto", "none", "efa", "infiniband", "gpudirect_tcpx", "gpudirect_tcpxo", "gpudirect_rdma"],
        Field(description="auto: what the machine has, where a pool has several nodes"),
    ] = "none"
    hours_per_month: Annotated[
        StrictInt | None,
        Field(ge=1, le=730, description="planned running hours; around the clock when left out"),
    ] = None
    disk: BootDisk = BootDisk()
    image: Image = "auto"
    group: Annotated[
        bool,
        Field(
            description="the nodes belong to one group of the cloud's, which replaces lost ones, instead of being "
            "resources one by one; elastic counts always do"
        ),
    ] = False
    first_boot: Annotated[
        Literal["login", "packages"],
        Field(
            description="what cloud-init does: let the keys in, or also install what the template will need"
        ),
    ] = "login"
    template: Name | None = None
    account: Annotated[
        Name | None,
        Field(description="one of the fleet's accounts; without it the fleet's own of that cloud"),
    ] = None


class Workstation(FrozenModel):
    """A machine on somebody's desk. Without cost facts it is reported as unpriced."""

    name: Name
    machine: str
    owner: Owner | None = None
    template: Name | None = None
    cost: HardwareCost | None = None

    @property
    def usd_per_hour(self) -> float | None:
        """Return what it costs per hour (formula: ``HardwareCost``), None without cost facts."""
        return None if self.cost is None else self.cost.usd_per_hour(1)

    @property
    def usd_per_hour_as_of(self) -> str | None:
        """Return the day of the oldest figure behind the cost; None where there is none or it is undated."""
        return None if self.cost is None else self.cost.oldest_figure_date

    @property
    def usd_per_hour_source(self) -> str:
        """Return where that figure is from, or why there is none."""
        return (
            f"workstation {self.name} has no cost facts"
            if self.cost is None
            else self.cost.figure_sources_text
        )


class RackReference(FrozenModel):
    """A rack of the stack; ``inventory`` names its file in ``inventory/``, the rack's name when left out."""

    name: Name
    inventory: Name | None = None
    template: Name | None = None

    @property
    def inventory_file(self) -> str:
        """Return the rack's file, relative to the project."""
        return f"inventory/{self.inventory or self.name}.yaml"


class StackRack(RackReference):
    """A rack of the stack together with what its file declares."""

    rack: Rack


class FleetSpec(FrozenModel):
    """``gpufleet:fleet`` as written."""

    owner: Owner
    budget_usd_per_month: MonthlyBudget | None = None
    expires: Annotated[
        date | None,
        Field(description="after this day a sweep lists what is left of the stack; never when left out"),
    ] = None
    ssh: SshAccess = SshAccess()
    aws: AwsAccount | None = None
    gcp: GcpAccount | None = None
    azure: AzureAccount | None = None
    accounts: dict[Name, NamedAccount] = Field(
        default_factory=dict, description="further accounts, which pools name"
    )
    pools: tuple[Pool, ...] = ()
    workstations: tuple[Workstation, ...] = ()
    racks: tuple[RackReference, ...] = ()
    hardware_profiles: dict[Name, HardwareProfile] = Field(default_factory=dict)
    software_profiles: dict[Name, SoftwareProfile] = Field(default_factory=dict)
    applications: dict[Name, Application] = Field(default_factory=dict)
    templates: dict[Name, NodeTemplate] = Field(default_factory=dict)

    def select_account(self, name: str | None) -> Self:
        """Return the part of one account: its pools, and its cloud's keys in place of the fleet's own."""
        pools = tuple(pool for pool in self.pools if pool.account == name)
        account = self.accounts.get(name or "")
        own = {account.cloud: getattr(account, account.cloud)} if account else {}
        return self.model_copy(update={"pools": pools, **own})

    def resolve_blueprint(self, template_name: str | None) -> Blueprint:
        """Return a template by name with every step looked up; nodes that name none get the plain one."""
        named = {step: getattr(self, key) for step, key in STEPS.items()}
        return self.get_template(template_name).resolve_steps(named)

    def get_template(self, template_name: str | None) -> NodeTemplate:
        """Return a template by name; nodes that name none get the plain one."""
        return NodeTemplate() if template_name is None else self.templates[template_name]


class Fleet(FleetSpec):
    """A declared fleet: valid, legal, its racks and container files read."""

    stack: str
    racks: tuple[StackRack, ...] = ()
    container_files: dict[str, ContainerFile] = Field(default_factory=dict)
    # The accounts that the stack's file names for Pulumi's providers: they count where the spec names none.
    provider_project: str = ""
    provider_subscription: str = ""
    account: str = ""  # the name of the account of which this is the part

    def split_by_account(self) -> tuple[Self, ...]:
        """Return the parts of the accounts: that of pools which name none, then one for each declared account."""
        named = (self.select_account(name).model_copy(update={"account": name}) for name in self.accounts)
        return (self.select_account(None), *named)

    def find_account_part(self, pool_name: str | None) -> Self:
        """Return the part with a pool; that of pools which name no account if there is no such pool."""
        parts = self.split_by_account()
        return next((part for part in parts if part.find_pool(pool_name or "")), parts[0])

    @property
    def clouds(self) -> set[str]:
        """Return the clouds of the pools, and that of a named account, also after its last pool is gone."""
        return {pool.cloud for pool in self.pools} | (
            {self.accounts[self.account].cloud} if self.account else set()
        )

    @classmethod
    def from_spec(
        cls,
        spec: FleetSpec,
        stack: str,
        racks: tuple[StackRack, ...],
        container_files: Mapping[str, ContainerFile] | None = None,
    ) -> Self:
        """Return the spec as a fleet of that stack with its racks and its container files by path."""
        fields: dict[str, Any] = {
            name: getattr(spec, name) for name in FleetSpec.model_fields if name != "racks"
        }
        return cls(**fields, stack=stack, racks=racks, container_files=dict(container_files or {}))

    def resolve_blueprint(self, template_name: str | None) -> Blueprint:
        """Return a template with every step looked up and its container files."""
        blueprint = super().resolve_blueprint(template_name)
        files = tuple(self.container_files[path] for path in blueprint.application.container_files)
        return blueprint.model_copy(update={"container_files": files})

    def find_pool(self, name: str) -> Pool | None:
        """Return the pool with that name, None if there is none."""
        return next((pool for pool in self.pools if pool.name == name), None)
