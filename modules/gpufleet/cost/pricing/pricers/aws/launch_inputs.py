"""What an EC2 instance, a launch template or a launch configuration asks for, parsed once."""

from __future__ import annotations

from base64 import b64decode
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.values import (
    Number,
    Text,
    is_input_true,
    parse_input_flag,
    read_input,
    read_input_marker,
    read_input_number,
    read_input_text,
    text_if_known,
)
from gpufleet.cost.pricing.component import Components, MachinePartContext, UnpricedComponent
from gpufleet.cost.pricing.pricers.aws.location import PlacementInputs, parse_placement_inputs
from gpufleet.cost.pricing.pricers.aws.volume import (
    AttachedVolumes,
    parse_attached_volumes,
    parse_block_device_mappings,
)
from gpufleet.cost.pricing.pricers.licence import system_licence_components
from gpufleet.engine import StateResource, UnreadableValue

TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
CONFIGURATION = "aws:ec2/launchConfiguration:LaunchConfiguration"
SPOT_REQUEST = ":SpotInstanceRequest"
LINUX, WINDOWS = "Linux/UNIX", "Windows"  # EC2's names of platforms; Linux is the default
RED_HAT, SUSE = "Red Hat Enterprise Linux", "SUSE Linux"
SQL_SERVER_EDITIONS = ("Standard", "Enterprise", "Web")  # of images that bill SQL Server too; Express is free
IMAGE_KEYS = ("ami", "imageId", "amiType")
POWERSHELL_TAG = "<powershell>"
SHARED_TENANCY = "default"
TENANCIES = (SHARED_TENANCY, "dedicated", "host")
CAPACITY_BLOCK = "aws:ec2/capacityBlockReservation:CapacityBlockReservation"
IN_CAPACITY_BLOCK = "runs in a capacity block, which is prepaid: its price is not in the price list"
ON_DEDICATED_HOST = "runs on a dedicated host, which bills instead: hosts are not in the price list"
MONITORED_METRICS = Decimal(7)  # CloudWatch pricing: detailed monitoring bills seven metrics of each instance
DEDICATED_TENANCY = "dedicated tenancy costs more than this price, which is for shared hardware"
RESERVATION_SPECIFICATION = "capacityReservationSpecification"
RESERVATION_ID_PATH = (RESERVATION_SPECIFICATION, "capacityReservationTarget", "capacityReservationId")


@dataclass(frozen=True)
class LaunchInputs:
    """The inputs of an instance, a launch template or a launch configuration.

    ``public_address`` is None if the subnet decides. ``hidden_interfaces`` is why a template's network
    interfaces cannot be read. ``reservation_id`` is None if no reservation is targeted.
    """

    instance_type: Text
    selects_types_by_attributes: bool
    is_spot: bool | UnreadableValue | None
    max_spot_price: Number
    platform: str
    hides_image: bool
    tenancy: str
    is_in_capacity_block: bool
    is_on_dedicated_host: bool
    refuses_reservations: bool
    reservation_id: Text
    placement: PlacementInputs
    public_address: bool | UnreadableValue | None
    hidden_interfaces: UnreadableValue | None
    volumes: AttachedVolumes
    has_detailed_monitoring: bool


def parse_launch_inputs(inputs: Any, type_token: str) -> LaunchInputs:
    """Parse the inputs of an instance, a launch template or a launch configuration."""
    is_template = type_token == TEMPLATE
    tenancy = _parse_tenancy(inputs)
    market_type = read_input_text(inputs, "instanceMarketOptions", "marketType")
    spot_price = read_input_number(inputs, "spotPrice")
    if spot_price is None:
        spot_price = read_input_number(inputs, "instanceMarketOptions", "spotOptions", "maxPrice")
    root_device = None if is_template else read_input(inputs, "rootBlockDevice")
    return LaunchInputs(
        instance_type=read_input_text(inputs, "instanceType"),
        selects_types_by_attributes=read_input(inputs, "instanceRequirements") is not None,
        is_spot=_parse_spot(inputs, type_token, market_type),
        max_spot_price=spot_price,
        platform=parse_operating_system_platform(inputs),
        hides_image=any(isinstance(read_input(inputs, key), UnreadableValue) for key in IMAGE_KEYS),
        tenancy=tenancy,
        is_in_capacity_block=market_type == "capacity-block",
        is_on_dedicated_host=tenancy == "host" or read_input(inputs, "hostId") is not None,
        refuses_reservations=read_input_text(
            inputs, RESERVATION_SPECIFICATION, "capacityReservationPreference"
        )
        == "none",
        reservation_id=read_input_text(inputs, *RESERVATION_ID_PATH),
        placement=parse_placement_inputs(inputs),
        public_address=_parse_public_address(inputs, type_token),
        hidden_interfaces=read_input_marker(inputs, "networkInterfaces") if is_template else None,
        volumes=parse_block_device_mappings(inputs)
        if is_template
        else parse_attached_volumes(inputs, root_device),
        has_detailed_monitoring=is_input_true(
            inputs, *(("monitoring", "enabled") if is_template else ("monitoring",))
        ),
    )


def parse_operating_system_platform(inputs: Any) -> str:
    """Return the platform as reservations name it: what image or user data say, else Linux."""
    images = " ".join(text_if_known(read_input_text(inputs, key)) or "" for key in IMAGE_KEYS).lower()
    if "windows" in images:
        edition = next((each for each in SQL_SERVER_EDITIONS if each.lower() in images), "")
        return f"{WINDOWS} with SQL Server {edition}" if "sql" in images and edition else WINDOWS
    if "rhel" in images:
        return RED_HAT
    if "sles" in images and "opensuse" not in images:
        return SUSE
    is_windows = is_input_true(inputs, "getPasswordData") or _has_powershell_user_data(inputs)
    return WINDOWS if is_windows else LINUX


def _has_powershell_user_data(inputs: Any) -> bool:
    """Return whether the user data, plain or in base64, has the tag that only EC2's agents for Windows run."""
    texts = [text_if_known(read_input_text(inputs, key)) or "" for key in ("userData", "userDataBase64")]
    with suppress(ValueError):
        texts += [b64decode(text, validate=True).decode("utf-8", "ignore") for text in texts if text]
    return any(POWERSHELL_TAG in text.lower() for text in texts)


def unbilled_machine_components(
    launch: LaunchInputs, graph: ResourceGraph, *sources: StateResource | None
) -> Components | None:
    """Return what stands for a machine that bills nothing itself, None if it bills.

    ``sources`` are the resources that may name its capacity block. A block that the same stack buys is a resource
    with a line of its own, so the machine adds none.
    """
    if launch.is_in_capacity_block:
        blocks = (
            graph.find_referenced_resource(source, RESERVATION_ID_PATH, CAPACITY_BLOCK)
            for source in sources
            if source
        )
        return [] if any(blocks) else [UnpricedComponent(IN_CAPACITY_BLOCK, "machine")]
    return [UnpricedComponent(ON_DEDICATED_HOST, "machine")] if launch.is_on_dedicated_host else None


def surcharge_components(launch: LaunchInputs, context: MachinePartContext) -> Components:
    """Return what such a machine bills on top of its price here."""
    surcharges: Components = []
    if launch.tenancy == "dedicated":
        surcharges.append(UnpricedComponent(DEDICATED_TENANCY, "dedicated_tenancy"))
    if launch.has_detailed_monitoring:
        surcharges.append(context.make_part_component("monitoring", "cloudwatch:metric", MONITORED_METRICS))
    is_unknown = launch.hides_image and launch.platform == LINUX
    return [*surcharges, *system_licence_components(None if is_unknown else launch.platform)]


def _parse_spot(inputs: Any, type_token: str, market_type: Text) -> bool | UnreadableValue | None:
    """Return the market setting; None if there is none."""
    if type_token.endswith(SPOT_REQUEST) or read_input(inputs, "spotPrice") is not None:
        return True
    return market_type == "spot" if isinstance(market_type, str) else market_type


def _parse_tenancy(inputs: Any) -> str:
    tenancy = (
        read_input_text(inputs, "tenancy")
        or read_input_text(inputs, "placement", "tenancy")
        or read_input_text(inputs, "placementTenancy")
    )
    return tenancy if isinstance(tenancy, str) else SHARED_TENANCY


def _parse_public_address(inputs: Any, type_token: str) -> bool | UnreadableValue | None:
    """Return whether a public address is asked for: by a template on its first network interface only."""
    setting = None if type_token == TEMPLATE else read_input(inputs, "associatePublicIpAddress")
    if setting is None and type_token != CONFIGURATION:
        setting = read_input(inputs, "networkInterfaces", 0, "associatePublicIpAddress")
    return parse_input_flag(setting)
