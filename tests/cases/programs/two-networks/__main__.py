"""Two networks of one shape: a public subnet with a NAT gateway, a private one with a machine."""

import pulumi_aws as aws


def make_network(name: str, number: int) -> None:
    vpc = aws.ec2.Vpc(name, cidr_block=f"10.{number}.0.0/16")
    public = aws.ec2.Subnet(f"{name}-public", vpc_id=vpc, cidr_block=f"10.{number}.0.0/24")
    private = aws.ec2.Subnet(f"{name}-private", vpc_id=vpc, cidr_block=f"10.{number}.1.0/24")
    aws.ec2.InternetGateway(name, vpc_id=vpc)
    address = aws.ec2.Eip(name, domain="vpc")
    aws.ec2.NatGateway(name, allocation_id=address.id, subnet_id=public.id)
    aws.ec2.Instance(
        name,
        instance_type="t3.micro" if number == 10 else "m6i.large",
        ami="ami-0123456789abcdef0",
        subnet_id=private.id,
        root_block_device={"volume_size": 16, "volume_type": "gp3"},
    )


make_network("hub", 10)
make_network("spoke", 20)
