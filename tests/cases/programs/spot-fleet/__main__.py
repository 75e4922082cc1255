"""Batch workers: an EC2 fleet of weighted types, an older spot fleet beside it, and one on-demand head."""

import pulumi_aws as aws

template = aws.ec2.LaunchTemplate(
    "worker",
    image_id="ami-0123456789abcdef0",
    instance_type="g5.xlarge",
    block_device_mappings=[
        {"device_name": "/dev/sda1", "ebs": {"volume_size": 100, "volume_type": "gp3"}},
    ],
)
aws.ec2.Fleet(
    "workers",
    type="maintain",
    launch_template_configs=[
        {
            "launch_template_specification": {"launch_template_id": template.id, "version": "$Latest"},
            "overrides": [
                {"instance_type": "g5.2xlarge", "weighted_capacity": 1},
                {"instance_type": "g5.12xlarge", "weighted_capacity": 4},
            ],
        }
    ],
    target_capacity_specification={
        "default_target_capacity_type": "spot",
        "total_target_capacity": 8,
        "on_demand_target_capacity": 2,
    },
)
aws.ec2.SpotFleetRequest(
    "old-workers",
    iam_fleet_role="arn:aws:iam::123456789012:role/fleet",
    target_capacity=3,
    spot_price="0.40",
    launch_specifications=[
        {
            "ami": "ami-0123456789abcdef0",
            "instance_type": "g4dn.xlarge",
            "root_block_devices": [{"volume_size": 50, "volume_type": "gp3"}],
        }
    ],
)
aws.ec2.Instance(
    "head",
    ami="ami-0123456789abcdef0",
    instance_type="m5.xlarge",
    associate_public_ip_address=True,
    root_block_device={"volume_size": 30, "volume_type": "gp3"},
)
