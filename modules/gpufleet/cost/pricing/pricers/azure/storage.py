"""Azure storage: accounts and file shares by redundancy and access tier, and copies of disks."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.values import (
    MARKER_REASONS,
    Number,
    Text,
    read_input,
    read_input_number,
    read_input_text,
)
from gpufleet.cost.pricing.component import Components, UnpricedComponent
from gpufleet.cost.pricing.pricers.azure.location import standalone_part_context
from gpufleet.cost.pricing.pricers.azure.service import (
    TieredService,
    UsageMeter,
    sized_component,
    tiered_service_pricer,
    translated,
    with_inputs,
)
from gpufleet.cost.pricing.pricers.extensions import Pricer
from gpufleet.cost.pricing.pricers.required_input import text_or_unpriced
from gpufleet.engine import StateResource, UnreadableValue

ACCOUNTS = ("azure-native:storage:StorageAccount", "azure:storage/account:Account")
ACCOUNT_INPUTS = ("accountName", "storageAccountName", "storageAccountId")
GIB_PER_TIB = Decimal(1024)
SKU = ("sku.name",)
OPERATIONS = {
    "write": "monthly_write_operations",
    "read": "monthly_read_operations",
    "list": "monthly_list_and_create_container_operations",
}

SNAPSHOT = TieredService(
    "snapshot", "", meters=(UsageMeter("storage", "snapshot:gib", "storage_gb", is_stored=True),)
)
IMAGE = TieredService("image", "", meters=(UsageMeter("storage", "image:gib", "storage_gb", is_stored=True),))
RECOVERY_VAULT = TieredService(
    "vault", "", meters=(UsageMeter("storage", "recovery_vault:grs", "storage_gb", is_stored=True),)
)
NETAPP_POOL = TieredService(
    "capacity", "netapp:{tier}", ("serviceLevel",), "Premium", units_path="size_in_gib"
)
LUSTRE = TieredService("capacity", "managed_lustre:{tier}", SKU, units_path="storageCapacityTiB")
HPC_CACHE = TieredService("cache", "hpc_cache:{tier}", SKU, units_path="cacheSizeGB")
ELASTIC_SAN = TieredService("capacity", "elastic_san:{tier}", SKU, units_path="baseSizeTiB")


@dataclass(frozen=True)
class StorageAccountInputs:
    """The redundancy (such as lrs), the kind and the access tier of an account."""

    redundancy: Text
    kind: Text
    access_tier: Text

    def blob_item(self, redundancy: str) -> str:
        """Return the item of its blobs."""
        tier = "v1" if self.kind == "Storage" else str(self.access_tier or "Hot").lower()
        return f"blob_storage:{redundancy}_{tier}"


@dataclass(frozen=True)
class FileShareInputs:
    """The access tier of a share and its quota, which the Premium tier bills whether it is used or not."""

    access_tier: Text
    quota_gib: Number


def parse_storage_account_inputs(inputs: Any) -> StorageAccountInputs:
    """Parse a storage account. A Premium SKU has one access tier."""
    sku = read_input_text(inputs, "sku", "name")
    performance, _, redundancy = sku.partition("_") if isinstance(sku, str) else ("", "", sku)
    return StorageAccountInputs(
        redundancy.lower() if isinstance(redundancy, str) and redundancy else sku,
        read_input_text(inputs, "kind"),
        "premium" if performance == "Premium" else read_input_text(inputs, "accessTier"),
    )


def parse_file_share_inputs(inputs: Any) -> FileShareInputs:
    """Parse a file share."""
    return FileShareInputs(read_input_text(inputs, "accessTier"), read_input_number(inputs, "shareQuota"))


def price_storage_account(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return what is kept in an account and its operations, which the usage file has."""
    account = parse_storage_account_inputs(resource.inputs)
    redundancy = text_or_unpriced(account.redundancy, "its SKU", "storage")
    if isinstance(redundancy, UnpricedComponent):
        return [redundancy]
    context, usage = standalone_part_context(resource, graph), graph.usage_of_resource(resource)
    if account.kind == "FileStorage":  # its shares bill their quota
        return []
    if isinstance(account.access_tier, UnreadableValue):
        reason = f"its access tier is {MARKER_REASONS[account.access_tier]}"
        return [UnpricedComponent(reason, name) for name in ("storage", *OPERATIONS)]
    item = account.blob_item(redundancy)
    components: Components = [
        context.make_usage_component("storage", item, "storage_gb", usage, is_stored=True)
    ]
    for name, key in OPERATIONS.items():
        components.append(context.make_usage_component(name, f"{item}:{name}", key, usage))
    if item.endswith("_cool"):
        components.append(
            context.make_usage_component("retrieval", f"{item}:retrieval", "monthly_data_retrieval_gb", usage)
        )
    return components


def price_file_share(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return a share: in the Premium tier its quota, else what the usage file says that it keeps."""
    share = parse_file_share_inputs(resource.inputs)
    account = _find_account(resource, graph)
    account_inputs = parse_storage_account_inputs(_account_inputs(account)) if account else None
    redundancy = account_inputs.redundancy if account_inputs else None
    if not isinstance(redundancy, str):
        return [UnpricedComponent("the redundancy of its storage account is not known", "storage")]
    is_premium = account_inputs is not None and account_inputs.access_tier == "premium"
    hidden = account_inputs.access_tier if account_inputs else None
    for marker in (hidden, None if is_premium else share.access_tier):
        if isinstance(marker, UnreadableValue):
            return [UnpricedComponent(f"its access tier is {MARKER_REASONS[marker]}", "storage")]
    tier = "premium" if is_premium else str(share.access_tier or "TransactionOptimized").lower()
    item = f"file_share:{tier}_{redundancy}"
    context = standalone_part_context(resource, graph)
    if is_premium:
        return [sized_component("storage", item, share.quota_gib, context, "quota")]
    usage = graph.usage_of_resource(resource)
    return [context.make_usage_component("storage", item, "storage_gb", usage, is_stored=True)]


def _find_account(resource: StateResource, graph: ResourceGraph) -> StateResource | None:
    accounts = (
        graph.find_referenced_resource(resource, (name,), *ACCOUNTS)
        for name in ACCOUNT_INPUTS
        if name in resource.inputs
    )
    return next((account for account in accounts if account), None)


def _account_inputs(account: StateResource) -> Any:
    return account.inputs if account.type.startswith("azure-native:") else _native_account(account.inputs)


def _native_account(inputs: Any) -> Any:
    """Return the inputs of azure-native for a classic account, whose tier and redundancy are two inputs."""
    tier, redundancy = read_input(inputs, "accountTier"), read_input(inputs, "accountReplicationType")
    kind = read_input(inputs, "accountKind")
    name = f"{tier}_{redundancy}" if isinstance(tier, str) and isinstance(redundancy, str) else redundancy
    if tier is not None and not isinstance(tier, str):
        name = UnreadableValue.UNKNOWN
    return {**inputs, "sku": {"name": name}, "kind": "StorageV2" if kind is None else kind}


def _netapp_gib(inputs: Any) -> Any:
    """Return the size of a pool in GiB: azure-native has bytes, the classic package TiB."""
    size_bytes, tib = read_input(inputs, "size"), read_input_number(inputs, "sizeInTb")
    if isinstance(tib, Decimal):
        return {**inputs, "size_in_gib": tib * GIB_PER_TIB}
    text = str(size_bytes).removesuffix(".0")
    is_bytes = text.isdigit() and len(text) < 17  # noqa: PLR2004 - up to petabytes
    return {**inputs, "size_in_gib": Decimal(text) / 2**30 if is_bytes else size_bytes}


PRICERS: dict[str, Pricer] = {
    "azure-native:compute:Image": tiered_service_pricer(IMAGE),
    "azure-native:compute:Snapshot": tiered_service_pricer(SNAPSHOT),
    "azure-native:elasticsan:ElasticSan": tiered_service_pricer(ELASTIC_SAN),
    "azure-native:netapp:CapacityPool": with_inputs(tiered_service_pricer(NETAPP_POOL), _netapp_gib),
    "azure-native:netapp:Pool": with_inputs(tiered_service_pricer(NETAPP_POOL), _netapp_gib),
    "azure-native:recoveryservices:Vault": tiered_service_pricer(RECOVERY_VAULT),
    "azure-native:storage:FileShare": price_file_share,
    "azure-native:storage:StorageAccount": price_storage_account,
    "azure-native:storagecache:AmlFilesystem": tiered_service_pricer(LUSTRE),
    "azure-native:storagecache:Cache": tiered_service_pricer(HPC_CACHE),
    "azure:compute/image:Image": tiered_service_pricer(IMAGE),
    "azure:compute/snapshot:Snapshot": tiered_service_pricer(SNAPSHOT),
    "azure:hpc/cache:Cache": translated(
        tiered_service_pricer(HPC_CACHE), {"skuName": "sku.name", "cacheSizeInGb": "cacheSizeGB"}
    ),
    "azure:managedlustre/fileSystem:FileSystem": translated(
        tiered_service_pricer(LUSTRE), {"skuName": "sku.name", "storageCapacityInTb": "storageCapacityTiB"}
    ),
    "azure:netapp/pool:Pool": with_inputs(tiered_service_pricer(NETAPP_POOL), _netapp_gib),
    "azure:recoveryservices/vault:Vault": tiered_service_pricer(RECOVERY_VAULT),
    "azure:storage/account:Account": with_inputs(price_storage_account, _native_account),
    "azure:storage/share:Share": translated(price_file_share, {"quota": "shareQuota"}),
}
