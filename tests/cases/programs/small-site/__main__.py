"""A site on one machine: its network, its address, its system disk and a disk for data."""

import pulumi_azure_native as azure

group = azure.resources.ResourceGroup("site")
network = azure.network.VirtualNetwork(
    "site",
    resource_group_name=group.name,
    address_space=azure.network.AddressSpaceArgs(address_prefixes=["10.60.0.0/16"]),
)
subnet = azure.network.Subnet(
    "site", resource_group_name=group.name, virtual_network_name=network.name, address_prefix="10.60.1.0/24"
)
address = azure.network.PublicIPAddress(
    "site",
    resource_group_name=group.name,
    public_ip_allocation_method="Static",
    sku=azure.network.PublicIPAddressSkuArgs(name="Standard"),
)
card = azure.network.NetworkInterface(
    "site",
    resource_group_name=group.name,
    ip_configurations=[
        azure.network.NetworkInterfaceIPConfigurationArgs(
            name="main",
            subnet=azure.network.SubnetArgs(id=subnet.id),
            public_ip_address=azure.network.PublicIPAddressArgs(id=address.id),
        )
    ],
)
azure.compute.Disk(
    "data",
    resource_group_name=group.name,
    creation_data=azure.compute.CreationDataArgs(create_option="Empty"),
    disk_size_gb=128,
    sku=azure.compute.DiskSkuArgs(name="Premium_LRS"),
)
azure.compute.VirtualMachine(
    "site",
    resource_group_name=group.name,
    hardware_profile=azure.compute.HardwareProfileArgs(vm_size="Standard_D2s_v3"),
    network_profile=azure.compute.NetworkProfileArgs(
        network_interfaces=[azure.compute.NetworkInterfaceReferenceArgs(id=card.id, primary=True)]
    ),
    os_profile=azure.compute.OSProfileArgs(
        computer_name="site",
        admin_username="keeper",
        linux_configuration=azure.compute.LinuxConfigurationArgs(
            disable_password_authentication=True,
            ssh=azure.compute.SshConfigurationArgs(
                public_keys=[
                    azure.compute.SshPublicKeyArgs(
                        key_data="ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExampleOnly somebody",
                        path="/home/keeper/.ssh/authorized_keys",
                    )
                ]
            ),
        ),
    ),
    storage_profile=azure.compute.StorageProfileArgs(
        image_reference=azure.compute.ImageReferenceArgs(
            publisher="Canonical", offer="ubuntu-24_04-lts", sku="server", version="latest"
        ),
        os_disk=azure.compute.OSDiskArgs(
            create_option="FromImage",
            disk_size_gb=64,
            managed_disk=azure.compute.ManagedDiskParametersArgs(storage_account_type="StandardSSD_LRS"),
        ),
    ),
)
