"""Pricers of Google Cloud resources. Each parses a resource's inputs once, into a frozen dataclass."""

from __future__ import annotations

from gpufleet.cost.pricing.pricers.extensions import Pricer
from gpufleet.cost.pricing.pricers.gcp import (
    disk,
    group,
    instance,
    kubernetes,
    network,
    reservation,
    resize_request,
)

PRICERS: dict[str, Pricer] = {
    "gcp:compute/instance:Instance": instance.price_compute_instance,
    "gcp:compute/instanceGroupManager:InstanceGroupManager": group.price_instance_group,
    "gcp:compute/regionInstanceGroupManager:RegionInstanceGroupManager": group.price_instance_group,
    "gcp:compute/instanceFromTemplate:InstanceFromTemplate": instance.price_instance_from_template,
    "gcp:compute/resizeRequest:ResizeRequest": resize_request.price_resize_request,
    "gcp:compute/regionResizeRequest:RegionResizeRequest": resize_request.price_resize_request,
    "gcp:compute/routerNat:RouterNat": network.price_cloud_nat,
    "gcp:compute/forwardingRule:ForwardingRule": network.price_forwarding_rule,
    "gcp:compute/globalForwardingRule:GlobalForwardingRule": network.price_forwarding_rule,
    "gcp:compute/globalAddress:GlobalAddress": network.price_global_address,
    "gcp:container/cluster:Cluster": kubernetes.price_gke_cluster,
    "gcp:container/nodePool:NodePool": kubernetes.price_gke_node_pool,
    "gcp:compute/reservation:Reservation": reservation.price_reservation,
    "gcp:compute/disk:Disk": disk.price_persistent_disk,
    "gcp:compute/regionDisk:RegionDisk": disk.price_regional_persistent_disk,
    "gcp:compute/address:Address": network.price_static_address,
}
