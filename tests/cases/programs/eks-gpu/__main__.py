"""A Kubernetes cluster whose GPU nodes are bought on spot, with a template that gives them a larger disk."""

import json

import pulumi
import pulumi_aws as aws

settings = pulumi.Config()
gpu_nodes = settings.require_int("gpuNodes")


def role(name, service, policies):
    """Make a role that a service may take, with Amazon's own policies."""
    trust = {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"}],
    }
    made = aws.iam.Role(name, assume_role_policy=json.dumps(trust))
    for policy in policies:
        aws.iam.RolePolicyAttachment(
            f"{name}-{policy}", role=made.name, policy_arn=f"arn:aws:iam::aws:policy/{policy}"
        )
    return made


network = aws.ec2.get_vpc(default=True)
subnets = aws.ec2.get_subnets(filters=[{"name": "vpc-id", "values": [network.id]}])
cluster = aws.eks.Cluster(
    "models",
    role_arn=role("cluster", "eks.amazonaws.com", ["AmazonEKSClusterPolicy"]).arn,
    vpc_config=aws.eks.ClusterVpcConfigArgs(subnet_ids=subnets.ids),
)
nodes = role("nodes", "ec2.amazonaws.com", ["AmazonEKSWorkerNodePolicy", "AmazonEKS_CNI_Policy"])
aws.eks.NodeGroup(
    "system",
    cluster_name=cluster.name,
    node_role_arn=nodes.arn,
    subnet_ids=subnets.ids,
    instance_types=["m5.large"],
    scaling_config=aws.eks.NodeGroupScalingConfigArgs(min_size=1, desired_size=2, max_size=3),
)
template = aws.ec2.LaunchTemplate(
    "gpu",
    block_device_mappings=[
        aws.ec2.LaunchTemplateBlockDeviceMappingArgs(
            device_name="/dev/xvda",
            ebs=aws.ec2.LaunchTemplateBlockDeviceMappingEbsArgs(volume_size=200, volume_type="gp3"),
        )
    ],
)
aws.eks.NodeGroup(
    "gpu",
    cluster_name=cluster.name,
    node_role_arn=nodes.arn,
    subnet_ids=subnets.ids,
    ami_type="AL2023_x86_64_NVIDIA",
    capacity_type="SPOT",
    instance_types=["g5.2xlarge", "g5.4xlarge"],
    launch_template=aws.eks.NodeGroupLaunchTemplateArgs(id=template.id, version="1"),
    scaling_config=aws.eks.NodeGroupScalingConfigArgs(min_size=0, desired_size=gpu_nodes, max_size=8),
    taints=[aws.eks.NodeGroupTaintArgs(key="nvidia.com/gpu", value="true", effect="NO_SCHEDULE")],
)
aws.eks.Addon("dns", cluster_name=cluster.name, addon_name="coredns")
pulumi.export("name", cluster.name)
