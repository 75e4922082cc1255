"""EC2 instances: the machine, its volumes, its public address, and the reservation that may cover it."""

from __future__ import annotations

from dataclasses import replace

from gpufleet.cost.pricing.pricers.aws.address import list_public_address
from gpufleet.cost.pricing.pricers.aws.location import pricer
from gpufleet.cost.pricing.pricers.aws.machine import (
    MAX_PRICE,
    TEMPLATE,
    bills_machine,
    find_reservation_claim,
    find_spot,
    list_surcharges,
    list_volumes,
)
from gpufleet.cost.pricing.pricers.reader import Parts, Reader


@pricer("aws:ec2/instance:Instance", "aws:ec2/spotInstanceRequest:SpotInstanceRequest")
def price_ec2_instance(instance: Reader) -> Parts:
    """Yield one instance; inputs that it leaves out may be in its launch template."""
    template = instance.find_resource("launchTemplate.id or launchTemplate.name", TEMPLATE)
    if template:
        own = instance.resource
        dependencies = {**template.property_dependencies, **own.property_dependencies}
        merged = {**template.inputs, **own.inputs}
        instance = instance.reading(replace(own, inputs=merged, property_dependencies=dependencies))
    instance = instance.bought(
        template, spot=find_spot(instance), max_price=instance.find_number(MAX_PRICE) or None
    )
    with instance.of("machine") as machine:
        if bills_machine(machine):
            part = machine.machines(machine.text("instanceType", "instance type"))
            yield part and replace(part, claim=find_reservation_claim(machine))
    yield from list_volumes(instance.all_month())  # a stopped instance keeps them
    running = replace(instance, hours=instance.terms.hours)  # also of one whose reservation bills all month
    yield from list_public_address(running, running)
    yield from list_surcharges(running)
