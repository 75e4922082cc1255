"""Render workers: a scale set behind a NAT gateway, larger in working hours, with a bastion to reach them."""

import pulumi
import pulumi_azure_native as azure

key = pulumi.Config().require("adminKey")
group = azure.resources.ResourceGroup("render")
address = azure.network.PublicIPAddress(
    "out",
    resource_group_name=group.name,
    public_ip_allocation_method="Static",
    sku=azure.network.PublicIPAddressSkuArgs(name="Standard"),
)
gateway = azure.network.NatGateway(
    "out",
    resource_group_name=group.name,
    sku=azure.network.NatGatewaySkuArgs(name="Standard"),
    public_ip_addresses=[azure.network.SubResourceArgs(id=address.id)],
)
network = azure.network.VirtualNetwork(
    "render",
    resource_group_name=group.name,
    address_space=azure.network.AddressSpaceArgs(address_prefixes=["10.40.0.0/16"]),
)
subnet = azure.network.Subnet(
    "workers",
    resource_group_name=group.name,
    virtual_network_name=network.name,
    address_prefix="10.40.1.0/24",
    nat_gateway=azure.network.SubResourceArgs(id=gateway.id),
)
workers = azure.compute.VirtualMachineScaleSet(
    "workers",
    resource_group_name=group.name,
    sku=azure.compute.SkuArgs(name="Standard_NC4as_T4_v3", tier="Standard", capacity=2),
    upgrade_policy=azure.compute.UpgradePolicyArgs(mode="Manual"),
    virtual_machine_profile=azure.compute.VirtualMachineScaleSetVMProfileArgs(
        os_profile=azure.compute.VirtualMachineScaleSetOSProfileArgs(
            computer_name_prefix="worker",
            admin_username="render",
            linux_configuration=azure.compute.LinuxConfigurationArgs(
                disable_password_authentication=True,
                ssh=azure.compute.SshConfigurationArgs(
                    public_keys=[
                        azure.compute.SshPublicKeyArgs(key_data=key, path="/home/render/.ssh/authorized_keys")
                    ]
                ),
            ),
        ),
        storage_profile=azure.compute.VirtualMachineScaleSetStorageProfileArgs(
            image_reference=azure.compute.ImageReferenceArgs(
                publisher="Canonical", offer="ubuntu-24_04-lts", sku="server", version="latest"
            ),
            os_disk=azure.compute.VirtualMachineScaleSetOSDiskArgs(
                create_option="FromImage",
                disk_size_gb=128,
                managed_disk=azure.compute.VirtualMachineScaleSetManagedDiskParametersArgs(
                    storage_account_type="Premium_LRS"
                ),
            ),
        ),
        network_profile=azure.compute.VirtualMachineScaleSetNetworkProfileArgs(
            network_interface_configurations=[
                azure.compute.VirtualMachineScaleSetNetworkConfigurationArgs(
                    name="main",
                    primary=True,
                    ip_configurations=[
                        azure.compute.VirtualMachineScaleSetIPConfigurationArgs(
                            name="main", subnet=azure.compute.ApiEntityReferenceArgs(id=subnet.id)
                        )
                    ],
                )
            ]
        ),
    ),
)
azure.monitor.AutoscaleSetting(
    "workers",
    resource_group_name=group.name,
    target_resource_uri=workers.id,
    enabled=True,
    profiles=[
        azure.monitor.AutoscaleProfileArgs(
            name="usual",
            capacity=azure.monitor.ScaleCapacityArgs(minimum="1", maximum="10", default="2"),
            rules=[],
        )
    ],
)
hall = azure.network.Subnet(
    "hall",
    resource_group_name=group.name,
    virtual_network_name=network.name,
    subnet_name="AzureBastionSubnet",  # Azure takes no other name
    address_prefix="10.40.2.0/26",
)
azure.network.BastionHost(
    "door",
    resource_group_name=group.name,
    sku=azure.network.SkuArgs(name="Basic"),
    ip_configurations=[
        azure.network.BastionHostIPConfigurationArgs(
            name="main",
            subnet=azure.network.SubResourceArgs(id=hall.id),
            public_ip_address=azure.network.SubResourceArgs(id=address.id),
        )
    ],
)
