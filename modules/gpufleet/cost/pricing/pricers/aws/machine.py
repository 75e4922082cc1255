"""What an EC2 machine bills, whatever asks for it: an instance, a launch template or a launch configuration."""

from __future__ import annotations

from base64 import b64decode
from contextlib import suppress
from decimal import Decimal

from gpufleet.cost.inputs.values import text_if_known
from gpufleet.cost.pricing.component import ReservationClaim
from gpufleet.cost.pricing.pricers.aws.location import find_possible_zones
from gpufleet.cost.pricing.pricers.aws.volume import list_attached_volumes, list_mapped_volumes
from gpufleet.cost.pricing.pricers.licence import list_licences
from gpufleet.cost.pricing.pricers.reader import Parts, Reader
from gpufleet.engine import UnreadableValue

TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
CONFIGURATION = "aws:ec2/launchConfiguration:LaunchConfiguration"
SPOT_REQUEST = ":SpotInstanceRequest"
LINUX, WINDOWS = "Linux/UNIX", "Windows"  # EC2's names of platforms; Linux is the default
RED_HAT, SUSE = "Red Hat Enterprise Linux", "SUSE Linux"
SQL_SERVER_EDITIONS = ("Standard", "Enterprise", "Web")  # of images that bill SQL Server too; Express is free
IMAGES, USER_DATA = ("ami", "imageId", "amiType"), ("userData", "userDataBase64")
WINDOWS_FLAG = "getPasswordData"  # of machines with Windows only
POWERSHELL_TAG = "<powershell>"
SHARED_TENANCY = "default"
TENANCIES = (SHARED_TENANCY, "dedicated", "host")
TENANCY = "tenancy or placement.tenancy or placementTenancy"
MARKET, MAX_PRICE = (
    "instanceMarketOptions.marketType",
    "spotPrice or instanceMarketOptions.spotOptions.maxPrice",
)
RESERVATION = "aws:ec2/capacityReservation:CapacityReservation"
CAPACITY_BLOCK = "aws:ec2/capacityBlockReservation:CapacityBlockReservation"
IN_CAPACITY_BLOCK = "runs in a capacity block, which is prepaid: its price is not in the price list"
ON_DEDICATED_HOST = "runs on a dedicated host, which bills instead: hosts are not in the price list"
MONITORED_METRICS = Decimal(7)  # CloudWatch pricing: detailed monitoring bills seven metrics of each instance
DEDICATED_TENANCY = "dedicated tenancy costs more than this price, which is for shared hardware"
RESERVATION_PREFERENCE = "capacityReservationSpecification.capacityReservationPreference"
RESERVATION_ID = "capacityReservationSpecification.capacityReservationTarget.capacityReservationId"
OUTSIDE_STACK = "outside this stack"  # the target of a reservation that no resource here is


def find_spot(launch: Reader) -> bool | UnreadableValue | None:
    """Return whether the market setting is spot; None if there is none."""
    if launch.source.type.endswith(SPOT_REQUEST) or launch.has("spotPrice"):
        return True
    market = launch.find_text(MARKET)
    return market == "spot" if isinstance(market, str) else market


def find_platform(launch: Reader) -> str:
    """Return the platform as reservations name it: what image or user data say, else Linux."""
    images = " ".join(text_if_known(launch.find_text(key)) or "" for key in IMAGES).lower()
    if "windows" in images:
        edition = next((each for each in SQL_SERVER_EDITIONS if each.lower() in images), "")
        return f"{WINDOWS} with SQL Server {edition}" if "sql" in images and edition else WINDOWS
    if "rhel" in images:
        return RED_HAT
    if "sles" in images and "opensuse" not in images:
        return SUSE
    is_windows = launch.find_flag(WINDOWS_FLAG) is True or _has_powershell_user_data(launch)
    return WINDOWS if is_windows else LINUX


def _has_powershell_user_data(launch: Reader) -> bool:
    """Return whether the user data, plain or in base64, has the tag that only EC2's agents for Windows run."""
    texts = [text_if_known(launch.find_text(key)) or "" for key in USER_DATA]
    with suppress(ValueError):
        texts += [b64decode(text, validate=True).decode("utf-8", "ignore") for text in texts if text]
    return any(POWERSHELL_TAG in text.lower() for text in texts)


def bills_machine(launch: Reader) -> bool:
    """Return whether a machine bills itself; refuse one that something outside of the stack bills.

    A capacity block that the same stack buys is a resource with a line of its own, so the machine adds none.
    """
    if launch.find_text(MARKET) == "capacity-block":
        if launch.find_resource(RESERVATION_ID, CAPACITY_BLOCK):
            return False
        raise launch.refuse(IN_CAPACITY_BLOCK)
    if launch.find_text(TENANCY) == "host" or launch.has("hostId"):
        raise launch.refuse(ON_DEDICATED_HOST)
    return True


def list_volumes(launch: Reader) -> Parts:
    """Yield the volumes of a machine."""
    if launch.source.type == TEMPLATE:
        return list_mapped_volumes(launch, describe_image(launch))
    return list_attached_volumes(launch, "rootBlockDevice", describe_image(launch))


def describe_image(launch: Reader) -> str:
    """Return what is known of the image of a machine: its platform, and what names it."""
    names = (text_if_known(launch.find_text(key)) or "" for key in IMAGES)
    return " ".join((find_platform(launch), *names))


def list_surcharges(launch: Reader) -> Parts:
    """Yield what a machine bills on top of its price here."""
    with launch.of("dedicated_tenancy") as tenancy:
        if tenancy.choice(TENANCY, TENANCIES, SHARED_TENANCY, "its tenancy") == "dedicated":
            raise tenancy.refuse(DEDICATED_TENANCY)
    path = "monitoring.enabled" if launch.source.type == TEMPLATE else "monitoring.enabled or monitoring"
    with launch.of("monitoring") as monitoring:
        if monitoring.flag(path, "whether it has detailed monitoring"):
            yield monitoring.part("cloudwatch:metric", size=MONITORED_METRICS)
    yield from list_platform_licences(launch)


def list_platform_licences(launch: Reader) -> Parts:
    """Yield the licences of the platform, which an input that cannot be read may hide."""
    platform = find_platform(launch)
    inputs = {"its image": map(launch.find_text, IMAGES), "its user data": map(launch.find_text, USER_DATA)}
    hidden = [
        name for name, values in inputs.items() if any(isinstance(each, UnreadableValue) for each in values)
    ]
    if isinstance(launch.find_flag(WINDOWS_FLAG), UnreadableValue):
        hidden.append(WINDOWS_FLAG)
    is_hidden = platform == LINUX and bool(hidden)
    return list_licences(launch, None if is_hidden else platform, " or ".join(hidden))


def find_reservation_claim(
    launch: Reader, zones: frozenset[str] = frozenset(), platform: str = ""
) -> ReservationClaim | None:
    """Return the reservation that machines target, else any open one that matches; spot uses none.

    ``zones`` are those of the group that launches the machines.
    """
    if launch.terms.purchase == "spot" or launch.find_text(RESERVATION_PREFERENCE) == "none":
        return None
    if launch.has(RESERVATION_ID):
        target = launch.find_resource(RESERVATION_ID, RESERVATION)
        return ReservationClaim(
            target_urn=target.urn if target else OUTSIDE_STACK,
            reservation_id=text_if_known(launch.find_text(RESERVATION_ID)) or "",
        )
    zones = zones or find_possible_zones(launch)
    tenancy = text_if_known(launch.find_text(TENANCY)) or SHARED_TENANCY
    return ReservationClaim(
        accepts_open=True,
        zone=next(iter(zones)) if len(zones) == 1 else None,
        attributes=(platform or find_platform(launch), tenancy),
        possible_zones=zones,
    )
