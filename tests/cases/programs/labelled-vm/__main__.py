"""One machine with a reserved address, a disk of its own and a rule of the firewall."""

import pulumi
import pulumi_gcp as gcp

network = gcp.compute.Network("site", auto_create_subnetworks=False)
subnet = gcp.compute.Subnetwork(
    "site", network=network.id, ip_cidr_range="10.70.0.0/24", region="europe-west1"
)
gcp.compute.Firewall(
    "web",
    network=network.id,
    allows=[gcp.compute.FirewallAllowArgs(protocol="tcp", ports=["80", "443"])],
    source_ranges=["0.0.0.0/0"],
)
address = gcp.compute.Address("site", region="europe-west1")
disk = gcp.compute.Disk("data", size=200, type="pd-balanced", zone="europe-west1-b")
machine = gcp.compute.Instance(
    "site",
    machine_type="e2-standard-2",
    zone="europe-west1-b",
    boot_disk=gcp.compute.InstanceBootDiskArgs(
        initialize_params=gcp.compute.InstanceBootDiskInitializeParamsArgs(
            image="debian-cloud/debian-12", size=20, type="pd-balanced"
        )
    ),
    attached_disks=[gcp.compute.InstanceAttachedDiskArgs(source=disk.id)],
    network_interfaces=[
        gcp.compute.InstanceNetworkInterfaceArgs(
            subnetwork=subnet.id,
            access_configs=[gcp.compute.InstanceNetworkInterfaceAccessConfigArgs(nat_ip=address.address)],
        )
    ],
    labels={"team": "web"},
)
pulumi.export("address", address.address)
