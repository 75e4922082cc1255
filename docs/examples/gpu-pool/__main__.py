# ruff: noqa: INP001 - a Pulumi program is a folder, no package
import pulumi

from gpufleet.cloud import GpuPool

pool = GpuPool(
    "render",
    cloud="gcp",
    region="us-central1",
    zones=["us-central1-a"],
    machine="g2-standard-4",
    count=2,
    purchase={"kind": "spot"},
    owner="research",
    ssh={"authorized_keys": [pulumi.Config().require("key")], "allowed_cidrs": ["10.0.0.0/8"]},
)
pulumi.export("nodes", pool.nodes)
