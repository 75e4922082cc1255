"""The price list's names of parts that are neither machines, disks nor accelerators."""

from __future__ import annotations

ADDRESS = "public_ipv4"
NAT = "nat_gateway"
NAT_GIB = "nat_gateway:gib"  # per GiB processed
EGRESS_GIB = "egress:gib"  # per GiB sent to the internet
LOAD_BALANCER = "load_balancer"
UNITS = "load_balancer:unit"  # AWS's capacity units, averaged over the month
ENDPOINT = "vpc_endpoint"
KUBERNETES = "kubernetes_cluster"
BASTION = "bastion"
