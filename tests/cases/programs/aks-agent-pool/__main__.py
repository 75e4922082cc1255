"""A managed Kubernetes cluster: its system pool inside it, and a pool of A100 machines beside it."""

import pulumi
import pulumi_azure_native as azure

group = azure.resources.ResourceGroup("models")
cluster = azure.containerservice.ManagedCluster(
    "models",
    resource_group_name=group.name,
    dns_prefix="models",
    identity=azure.containerservice.ManagedClusterIdentityArgs(type="SystemAssigned"),
    sku=azure.containerservice.ManagedClusterSKUArgs(name="Base", tier="Standard"),
    agent_pool_profiles=[
        azure.containerservice.ManagedClusterAgentPoolProfileArgs(
            name="system", mode="System", count=2, vm_size="Standard_D4s_v5", os_disk_type="Ephemeral"
        )
    ],
)
azure.containerservice.AgentPool(
    "cards",
    agent_pool_name="cards",
    resource_group_name=group.name,
    resource_name_=cluster.name,
    vm_size="Standard_NC24ads_A100_v4",
    count=1,
    enable_auto_scaling=True,
    min_count=0,
    max_count=3,
    scale_set_priority="Spot",
    scale_set_eviction_policy="Delete",
    spot_max_price=-1.0,
    os_disk_type="Managed",
    os_disk_size_gb=128,
)
azure.containerregistry.Registry(
    "models", resource_group_name=group.name, sku=azure.containerregistry.SkuArgs(name="Basic")
)
pulumi.export("cluster", cluster.name)
