"""A web service: two public subnets, a load balancer, and servers that come and go with the load."""

import json

import pulumi
import pulumi_aws as aws

settings = pulumi.Config()
server_type = settings.require("instanceType")
most = settings.get_int("maxServers") or 4

vpc = aws.ec2.Vpc("web", cidr_block="10.20.0.0/16", enable_dns_hostnames=True)
gateway = aws.ec2.InternetGateway("web", vpc_id=vpc.id)
routes = aws.ec2.RouteTable(
    "public",
    vpc_id=vpc.id,
    routes=[aws.ec2.RouteTableRouteArgs(cidr_block="0.0.0.0/0", gateway_id=gateway.id)],
)
zones = aws.get_availability_zones(state="available").names[:2]
public, private = [], []
for number, zone in enumerate(zones):
    outside = aws.ec2.Subnet(
        f"public-{number}",
        vpc_id=vpc.id,
        cidr_block=f"10.20.{number}.0/24",
        availability_zone=zone,
        map_public_ip_on_launch=True,
    )
    aws.ec2.RouteTableAssociation(f"public-{number}", subnet_id=outside.id, route_table_id=routes.id)
    public.append(outside)
    private.append(
        aws.ec2.Subnet(
            f"private-{number}", vpc_id=vpc.id, cidr_block=f"10.20.{number + 10}.0/24", availability_zone=zone
        )
    )

address = aws.ec2.Eip("way-out", domain="vpc")
aws.ec2.NatGateway("way-out", allocation_id=address.id, subnet_id=public[0].id)

door = aws.ec2.SecurityGroup(
    "door",
    vpc_id=vpc.id,
    ingress=[
        aws.ec2.SecurityGroupIngressArgs(protocol="tcp", from_port=80, to_port=80, cidr_blocks=["0.0.0.0/0"])
    ],
)
balancer = aws.lb.LoadBalancer(
    "web",
    load_balancer_type="application",
    security_groups=[door.id],
    subnets=[subnet.id for subnet in public],
)
targets = aws.lb.TargetGroup("web", port=80, protocol="HTTP", vpc_id=vpc.id)
aws.lb.Listener(
    "web",
    load_balancer_arn=balancer.arn,
    port=80,
    default_actions=[aws.lb.ListenerDefaultActionArgs(type="forward", target_group_arn=targets.arn)],
)

image = aws.ec2.get_ami(
    most_recent=True, owners=["amazon"], filters=[{"name": "name", "values": ["al2023-ami-*-x86_64"]}]
)
template = aws.ec2.LaunchTemplate(
    "web",
    image_id=image.id,
    instance_type=server_type,
    block_device_mappings=[
        aws.ec2.LaunchTemplateBlockDeviceMappingArgs(
            device_name="/dev/xvda",
            ebs=aws.ec2.LaunchTemplateBlockDeviceMappingEbsArgs(volume_size=20, volume_type="gp3"),
        )
    ],
)
group = aws.autoscaling.Group(
    "web",
    min_size=2,
    desired_capacity=2,
    max_size=most,
    vpc_zone_identifiers=[subnet.id for subnet in private],
    target_group_arns=[targets.arn],
    launch_template=aws.autoscaling.GroupLaunchTemplateArgs(id=template.id, version="$Latest"),
    opts=pulumi.ResourceOptions(ignore_changes=["desiredCapacity"]),
)
aws.autoscaling.Policy(
    "busy",
    autoscaling_group_name=group.name,
    policy_type="TargetTrackingScaling",
    target_tracking_configuration=aws.autoscaling.PolicyTargetTrackingConfigurationArgs(
        target_value=60,
        predefined_metric_specification=aws.autoscaling.PolicyTargetTrackingConfigurationPredefinedMetricSpecificationArgs(
            predefined_metric_type="ASGAverageCPUUtilization"
        ),
    ),
)
logs = aws.s3.Bucket("logs")
aws.cloudwatch.LogGroup("web", retention_in_days=14)
role = aws.iam.Role("web", assume_role_policy=json.dumps({"Version": "2012-10-17", "Statement": []}))

pulumi.export("url", balancer.dns_name)
