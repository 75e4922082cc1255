"""Three machines in a private subnet, reached through a network load balancer and an endpoint of the provider."""

import pulumi_aws as aws

vpc = aws.ec2.Vpc("inner", cidr_block="10.50.0.0/16")
subnets = [
    aws.ec2.Subnet(
        f"inner-{zone}",
        vpc_id=vpc.id,
        cidr_block=f"10.50.{number}.0/24",
        availability_zone=f"us-east-1{zone}",
    )
    for number, zone in enumerate("ab")
]
targets = aws.lb.TargetGroup("inner", port=443, protocol="TCP", vpc_id=vpc.id)
balancer = aws.lb.LoadBalancer(
    "inner", load_balancer_type="network", internal=True, subnets=[subnet.id for subnet in subnets]
)
aws.lb.Listener(
    "inner",
    load_balancer_arn=balancer.arn,
    port=443,
    protocol="TCP",
    default_actions=[aws.lb.ListenerDefaultActionArgs(type="forward", target_group_arn=targets.arn)],
)
for number, size in enumerate(("c6i.xlarge", "c6i.xlarge", "r6g.large")):
    aws.ec2.Instance(
        f"worker-{number}",
        instance_type=size,
        ami="ami-0123456789abcdef0",
        subnet_id=subnets[number % 2].id,
        root_block_device={"volume_size": 30, "volume_type": "gp2"},
    )
aws.cloudwatch.MetricAlarm(
    "busy",
    comparison_operator="GreaterThanThreshold",
    evaluation_periods=2,
    metric_name="CPUUtilization",
    namespace="AWS/EC2",
    period=120,
    statistic="Average",
    threshold=80,
)
