"""One descriptor per public cloud: what differs between clouds and does not depend on a machine or a region.

Other lists of clouds derive from this table; docs/architecture.md, "Adding a cloud", has the steps and the exceptions.
"""

from __future__ import annotations

import re

from gpufleet.catalog.entry import Purchase
from gpufleet.errors import InputError
from gpufleet.quick_dataclass import dataclass


@dataclass(frozen=True)
class CredentialLocation:
    """Where a cloud's provider plugin finds its credentials, and the command that creates them."""

    title: str
    variables: tuple[str, ...]
    files: tuple[str, ...]  # relative to the home directory
    command: str


@dataclass(frozen=True)
class Cloud:
    """One cloud. ``name`` is used in specs, data files and JSON; ``title`` in sentences.

    ``zone_pattern`` and ``zone_example`` contain ``{region}``. ``disk_part`` is the part that the catalogue
    prices by the GiB; None if the cloud sells disks in fixed sizes.
    """

    name: str
    title: str
    pulumi_package: str  # the provider plugin, and what its resource types start with
    credentials: CredentialLocation
    region_pattern: str
    zone_pattern: str
    zone_example: str
    image_id_pattern: str
    image_id_example: str
    price_kinds: tuple[Purchase, ...]
    disk_part: str | None = None
    vendor_image_architectures: tuple[str, ...] = ()  # for which there is an image with GPU drivers
    elastic_group_types: tuple[str, ...] = ()  # Pulumi types of groups whose members only the cloud knows
    api_distributions: tuple[str, ...] = ()  # Python distributions that call the cloud's API
    has_images_by_name: bool = True
    has_spot_price_cap: bool = False
    has_spot_fallback: bool = False
    has_zonal_reservations: bool = False

    @property
    def pulumi_python_distribution(self) -> str:
        """Return the Python distribution of the Pulumi SDK."""
        return f"pulumi-{self.pulumi_package}"

    def is_region_name(self, text: str) -> bool:
        """Return whether a text is spelt like a region of this cloud."""
        return re.fullmatch(self.region_pattern, text) is not None

    def is_zone_name(self, text: str, region: str) -> bool:
        """Return whether a text is spelt like a zone of that region."""
        return re.fullmatch(self.zone_pattern.format(region=re.escape(region)), text) is not None

    def example_zone_name(self, region: str) -> str:
        """Return the name of a region's first zone."""
        return self.zone_example.format(region=region)


_CLOUDS = (
    Cloud(
        name="aws",
        title="AWS",
        pulumi_package="aws",
        credentials=CredentialLocation(
            "AWS credentials",
            ("AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE"),
            (".aws/credentials", ".aws/config"),
            "aws configure",
        ),
        region_pattern=r"(us|eu|ap|af|ca|cn|il|me|mx|sa)(-gov|-iso[bef]?)?-[a-z]+-\d",
        zone_pattern=r"{region}[a-f]",
        zone_example="{region}a",
        image_id_pattern=r"ami-([0-9a-f]{8}|[0-9a-f]{17})",
        image_id_example="ami-0123456789abcdef0",
        price_kinds=(
            "on_demand",
            "spot",
            "reserved_1y",
            "reserved_3y",
            "savings_plan_1y",
            "savings_plan_3y",
            "capacity_block",
        ),
        disk_part="ebs:gp3",
        vendor_image_architectures=("x86_64",),
        elastic_group_types=("aws:autoscaling/group:Group",),
        api_distributions=("boto3",),
        has_spot_price_cap=True,
        has_spot_fallback=True,
        has_zonal_reservations=True,
    ),
    Cloud(
        name="gcp",
        title="GCP",
        pulumi_package="gcp",
        credentials=CredentialLocation(
            "Google Cloud credentials",
            ("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CREDENTIALS", "GOOGLE_OAUTH_ACCESS_TOKEN"),
            (".config/gcloud/application_default_credentials.json",),
            "gcloud auth application-default login",
        ),
        region_pattern=r"[a-z]+-[a-z]+\d+",
        zone_pattern=r"{region}-[a-f]",
        zone_example="{region}-a",
        image_id_pattern=r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?",
        image_id_example="gpufleet-node-20261121-090000",
        price_kinds=("on_demand", "spot", "reserved_1y", "reserved_3y", "cud_1y", "cud_3y", "dws_flex"),
        disk_part="pd-balanced",
        elastic_group_types=(
            "gcp:compute/regionInstanceGroupManager:RegionInstanceGroupManager",
            "gcp:compute/instanceGroupManager:InstanceGroupManager",
        ),
        api_distributions=("google-cloud-compute", "google-cloud-quotas"),
        has_zonal_reservations=True,
    ),
    Cloud(
        name="azure",
        title="Azure",
        pulumi_package="azure-native",
        credentials=CredentialLocation(
            "Azure credentials",
            ("ARM_CLIENT_ID", "AZURE_CLIENT_ID", "ARM_USE_MSI", "ARM_USE_OIDC"),
            (".azure/azureProfile.json",),
            "az login",
        ),
        region_pattern=r"[a-z]+\d?",
        zone_pattern=r"[123]",
        zone_example="1",
        image_id_pattern=(
            r"/subscriptions/[^/]+/resourceGroups/[^/]+/providers/Microsoft\.Compute/"
            r"(images/[^/]+|galleries/[^/]+/images/[^/]+(/versions/[^/]+)?)"
        ),
        image_id_example="/subscriptions/…/resourceGroups/…/providers/Microsoft.Compute/images/…",
        price_kinds=(
            "on_demand",
            "spot",
            "reserved_1y",
            "reserved_3y",
            "savings_plan_1y",
            "savings_plan_3y",
        ),
        vendor_image_architectures=("x86_64", "arm64"),
        elastic_group_types=("azure-native:compute:VirtualMachineScaleSet",),
        api_distributions=("azure-identity", "azure-mgmt-compute", "azure-mgmt-network"),
        has_images_by_name=False,
        has_spot_price_cap=True,
    ),
)

CLOUDS: dict[str, Cloud] = {cloud.name: cloud for cloud in _CLOUDS}


def get_cloud(name: str) -> Cloud:
    """Return the cloud of that name; an unknown one is an InputError with the known names."""
    if name not in CLOUDS:
        raise InputError(f"unknown cloud {name!r}", remedy=f"give {join_cloud_names()}")
    return CLOUDS[name]


def join_cloud_names() -> str:
    """Return the names of all clouds for a sentence: ``aws, gcp or azure``."""
    *first, last = CLOUDS
    return f"{', '.join(first)} or {last}"
