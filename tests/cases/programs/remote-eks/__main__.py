"""Components of awsx and eks: their children are made by another process, so only an engine sees them.

The packages themselves are left out: a generated SDK registers its components with these very words.
"""

import pulumi
import pulumi_aws as aws


class Vpc(pulumi.ComponentResource):
    """What the awsx package's own class does: register a component that is made elsewhere."""

    def __init__(self, name, cidr_block, opts=None):
        super().__init__("awsx:ec2:Vpc", name, {"cidr_block": cidr_block, "vpc_id": None}, opts, remote=True)

    @property
    @pulumi.getter(name="vpcId")
    def vpc_id(self) -> pulumi.Output[str]:
        return pulumi.get(self, "vpc_id")


class Cluster(pulumi.ComponentResource):
    """The same for the eks package."""

    def __init__(self, name, props, opts=None):
        super().__init__("eks:index:Cluster", name, props, opts, remote=True)


network = Vpc("shared", "10.50.0.0/16")
Cluster("jobs", {"vpcId": network.vpc_id, "instanceType": "g4dn.xlarge", "desiredCapacity": 2})
aws.ebs.Volume("scratch", availability_zone="us-east-1a", size=500, type="gp3")
