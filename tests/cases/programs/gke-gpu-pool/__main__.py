"""A zonal cluster without its default pool: one pool for services, one with cards that scales from none."""

import pulumi
import pulumi_gcp as gcp

network = gcp.compute.Network("models", auto_create_subnetworks=False)
subnet = gcp.compute.Subnetwork(
    "models", network=network.id, ip_cidr_range="10.30.0.0/20", region="us-central1"
)
router = gcp.compute.Router("models", network=network.id, region="us-central1")
gcp.compute.RouterNat(
    "models",
    router=router.name,
    region=router.region,
    nat_ip_allocate_option="AUTO_ONLY",
    source_subnetwork_ip_ranges_to_nat="ALL_SUBNETWORKS_ALL_IP_RANGES",
)
cluster = gcp.container.Cluster(
    "models",
    location="us-central1-a",
    network=network.id,
    subnetwork=subnet.id,
    initial_node_count=1,
    remove_default_node_pool=True,
    deletion_protection=False,
)
gcp.container.NodePool(
    "services",
    cluster=cluster.name,
    location="us-central1-a",
    node_count=2,
    node_config=gcp.container.NodePoolNodeConfigArgs(machine_type="e2-standard-4", disk_size_gb=50),
)
gcp.container.NodePool(
    "cards",
    cluster=cluster.name,
    location="us-central1-a",
    initial_node_count=1,
    autoscaling=gcp.container.NodePoolAutoscalingArgs(min_node_count=0, max_node_count=4),
    node_config=gcp.container.NodePoolNodeConfigArgs(
        machine_type="n1-standard-8",
        disk_size_gb=100,
        disk_type="pd-balanced",
        guest_accelerators=[
            gcp.container.NodePoolNodeConfigGuestAcceleratorArgs(type="nvidia-tesla-t4", count=1)
        ],
    ),
)
account = gcp.serviceaccount.Account("models", account_id="models-nodes")
gcp.storage.Bucket("weights", location="US")
pulumi.export("endpoint", cluster.endpoint)
