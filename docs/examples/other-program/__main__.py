# ruff: noqa: INP001 - a Pulumi program is a folder, no package
"""Somebody's renderer: a group of GPU machines of their launch template, and the way out for them."""

import pulumi_aws as aws

address = aws.ec2.Eip("way-out", domain="vpc")
aws.ec2.NatGateway("way-out", allocation_id=address.id, subnet_id="subnet-0123456789abcdef0")
template = aws.ec2.LaunchTemplate(
    "render",
    image_id="ami-0123456789abcdef0",
    instance_type="g5.2xlarge",
    block_device_mappings=[{"device_name": "/dev/sda1", "ebs": {"volume_size": 100, "volume_type": "gp3"}}],
)
aws.autoscaling.Group(
    "render",
    min_size=0,
    max_size=8,
    desired_capacity=2,
    vpc_zone_identifiers=["subnet-0123456789abcdef0"],
    launch_template={"id": template.id, "version": "$Latest"},
)
aws.s3.Bucket("frames")
