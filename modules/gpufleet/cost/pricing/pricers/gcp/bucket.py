"""Cloud Storage buckets: what they keep and the requests to it, by storage class."""

from __future__ import annotations

from gpufleet.cost.pricing.pricers.gcp.location import pricer
from gpufleet.cost.pricing.pricers.reader import Parts, Reader

DEFAULT_CLASS = "STANDARD"
CLASSES_WITH_RETRIEVAL = ("nearline", "coldline", "archive")
# Classes of before 2019 that bill as a class of today (cloud.google.com/storage/docs/storage-classes).
LEGACY_CLASSES = {"MULTI_REGIONAL": "STANDARD", "REGIONAL": "STANDARD"}


@pricer("gcp:storage/bucket:Bucket")
def price_bucket(bucket: Reader) -> Parts:
    """Yield what a bucket keeps and reads, by the usage file. Its location is a region, a pair or a continent."""
    place = bucket.within(bucket.of("storage").text("location", "its location").lower())
    declared = place.of("storage").text("storageClass", "its storage class", DEFAULT_CLASS).upper()
    name = LEGACY_CLASSES.get(declared, declared).lower()
    suffix = "" if name == "standard" else f":{name}"
    yield place.of("storage").used(f"gcs:{name}", "storage_gb", stored=True)
    for kind in ("a", "b"):
        yield place.of(f"operations:{kind}").used(
            f"gcs:class_{kind}{suffix}", f"monthly_class_{kind}_operations"
        )
    if name in CLASSES_WITH_RETRIEVAL:
        yield place.of("retrieval").used(f"gcs:retrieval:{name}", "monthly_data_retrieval_gb")
