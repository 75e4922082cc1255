"""Elastic Beanstalk environments: the machines, the load balancer and the database that their settings ask for."""

from __future__ import annotations

from dataclasses import replace

from gpufleet.cost.inputs.values import Text
from gpufleet.cost.money import ONE, Range
from gpufleet.cost.pricing.pricers.aws.location import pricer
from gpufleet.cost.pricing.pricers.part_names import LOAD_BALANCER
from gpufleet.cost.pricing.pricers.reader import Parts, Reader

LAUNCH, INSTANCES = "aws:autoscaling:launchconfiguration", "aws:ec2:instances"
GROUP, ENVIRONMENT = "aws:autoscaling:asg", "aws:elasticbeanstalk:environment"
DATABASE = "aws:rds:dbinstance"
DEFAULT_MIN, DEFAULT_MAX = 1, 4  # AWS's documentation of the options MinSize and MaxSize
DEFAULT_BALANCER = "classic"  # the same, of LoadBalancerType
SINGLE = "SingleInstance"


@pricer("aws:elasticbeanstalk/environment:Environment")
def price_beanstalk_environment(environment: Reader) -> Parts:
    """Yield what an environment starts; one of a single instance has no load balancer."""
    settings = _read_settings(environment.of("settings"))
    with settings.of("machine") as machine:
        names = machine.text(f"{INSTANCES}.InstanceTypes or {LAUNCH}.InstanceType", "instance type", "")
        if not names:
            raise machine.refuse("instance type is not set: the platform's default is used")
        yield machine.machines(names.partition(",")[0].strip(), _count_machines(machine))
    with settings.of("disk:root") as disk:
        if not disk.has(f"{LAUNCH}.RootVolumeSize"):
            raise disk.refuse("volume size is set by the platform")
        kind = disk.text(f"{LAUNCH}.RootVolumeType", "volume type", "gp2")
        size = disk.number(f"{LAUNCH}.RootVolumeSize", "volume size")
        yield disk.part(f"ebs:{kind}", _count_machines(disk), size)
    with settings.of("load_balancer") as balancer:
        if not _is_single(balancer):
            kind = balancer.text(f"{ENVIRONMENT}.LoadBalancerType", "load balancer type", DEFAULT_BALANCER)
            yield balancer.part(f"{LOAD_BALANCER}:{kind}")
    with settings.of("database") as database:
        if database.has(f"{DATABASE}.DBInstanceClass"):
            raise database.refuse("its database is created by the environment: declare it by itself")


def _read_settings(environment: Reader) -> Reader:
    """Return the reader of the settings by namespace and name; one without a readable name is listed."""
    settings: dict[str, dict[str, Text]] = {}
    for entry in environment.entries("settings", "the list of its settings"):
        with entry:
            namespace = entry.text("namespace", "the namespace of a setting")
            name = entry.text("name", "the name of a setting")
            settings.setdefault(namespace, {})[name] = entry.find_text("value")
    return replace(environment, inputs=settings)


def _count_machines(settings: Reader) -> Range:
    name = "its number of machines"
    low = settings.number(f"{GROUP}.MinSize", name, DEFAULT_MIN)
    high = settings.number(f"{GROUP}.MaxSize", name, DEFAULT_MAX)
    declared = ONE if _is_single(settings) else Range.spanning(low, low, high)
    return settings.resize(declared, name)


def _is_single(settings: Reader) -> bool:
    return settings.text(f"{ENVIRONMENT}.EnvironmentType", "environment type", "") == SINGLE
