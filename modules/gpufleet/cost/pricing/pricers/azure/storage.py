"""Azure storage: accounts and file shares by redundancy and access tier, and NetApp pools."""

from __future__ import annotations

from decimal import Decimal

from gpufleet.cost.pricing.pricers.azure.location import pricer
from gpufleet.cost.pricing.pricers.reader import Parts, Reader
from gpufleet.engine import StateResource

ACCOUNTS = ("azure-native:storage:StorageAccount", "azure:storage/account:Account")
ACCOUNT = "accountName or storageAccountName or storageAccountId"
ACCOUNT_KINDS = ("BlobStorage", "BlockBlobStorage", "FileStorage", "Storage", "StorageV2")
ACCESS_TIERS = ("Hot", "Cool", "Cold", "Premium")
SHARE_TIERS = ("TransactionOptimized", "Hot", "Cool", "Premium")
GIB_PER_TIB = Decimal(1024)
OPERATIONS = {
    "write": "monthly_write_operations",
    "read": "monthly_read_operations",
    "list": "monthly_list_and_create_container_operations",
}


@pricer("azure-native:storage:StorageAccount", "azure:storage/account:Account")
def price_storage_account(account: Reader) -> Parts:
    """Yield what is kept in an account and its operations, which the usage file has."""
    with account.of("storage") as storage:
        if _find_kind(storage) != "FileStorage":  # its shares bill their quota
            yield storage.used(_name_blobs(storage), "storage_gb", stored=True)
    for name, key in OPERATIONS.items():
        with account.of(name) as operations:
            if _find_kind(operations) != "FileStorage":
                yield operations.used(f"{_name_blobs(operations)}:{name}", key)
    with account.of("retrieval") as retrieval:
        if _find_kind(retrieval) != "FileStorage" and (item := _name_blobs(retrieval)).endswith("_cool"):
            yield retrieval.used(f"{item}:retrieval", "monthly_data_retrieval_gb")


@pricer("azure-native:storage:FileShare", "azure:storage/share:Share")
def price_file_share(share: Reader) -> Parts:
    """Yield a share: in the Premium tier its quota, else what the usage file says that it keeps."""
    with share.of("storage") as storage:
        source = _find_account(share)
        if source is None:
            raise storage.refuse("the redundancy of its storage account is not known")
        account = storage.reading(source)
        redundancy = _find_redundancy(account)
        if _find_access_tier(account, ACCESS_TIERS) == "premium":
            quota = storage.number("shareQuota or quota", "its quota")
            yield storage.part(f"file_share:premium_{redundancy}", size=quota)
        else:
            tier = storage.choice("accessTier", SHARE_TIERS, SHARE_TIERS[0], "its access tier").lower()
            yield storage.used(f"file_share:{tier}_{redundancy}", "storage_gb", stored=True)


@pricer("azure-native:netapp:CapacityPool", "azure-native:netapp:Pool", "azure:netapp/pool:Pool")
def price_netapp_pool(pool: Reader) -> Parts:
    """Yield the capacity of a pool in GiB: azure-native has bytes, the classic package TiB."""
    with pool.of("capacity") as capacity:
        level = capacity.text("serviceLevel", "its service level", "Premium").lower()
        yield capacity.part(f"netapp:{level}", _read_pool_gib(capacity))


def _read_pool_gib(pool: Reader) -> Decimal:
    if pool.has("sizeInTb"):
        return pool.number("sizeInTb", "its size") * GIB_PER_TIB
    return pool.bytes("size", "its size") / 2**30


def _find_kind(account: Reader) -> str:
    return account.choice("kind or accountKind", ACCOUNT_KINDS, "StorageV2", "its kind")


def _find_redundancy(account: Reader) -> str:
    """Return the redundancy, such as lrs: of azure-native it is in the SKU, of the classic package an input."""
    sku = account.text("sku.name or accountReplicationType", "its SKU")
    return (sku.partition("_")[2] or sku).lower()


def _find_access_tier(account: Reader, tiers: tuple[str, ...]) -> str:
    """Return the access tier; a Premium SKU has only one."""
    if account.text("accountTier or sku.name", "its SKU", "").startswith("Premium"):
        return "premium"
    return account.choice("accessTier", tiers, "Hot", "its access tier").lower()


def _name_blobs(account: Reader) -> str:
    tier = "v1" if _find_kind(account) == "Storage" else _find_access_tier(account, ACCESS_TIERS)
    return f"blob_storage:{_find_redundancy(account)}_{tier}"


def _find_account(share: Reader) -> StateResource | None:
    return share.find_resource(ACCOUNT, *ACCOUNTS)
