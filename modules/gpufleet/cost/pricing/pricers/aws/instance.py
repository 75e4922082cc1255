"""EC2 instances: the machine, its volumes, its public address, and the reservation that may cover it."""

from __future__ import annotations

from dataclasses import replace

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.values import number_if_known, text_if_known
from gpufleet.cost.pricing.component import (
    Components,
    CostComponent,
    MachinePartContext,
    ReservationClaim,
    UnpricedComponent,
)
from gpufleet.cost.pricing.pricers.aws.address import public_address_components
from gpufleet.cost.pricing.pricers.aws.launch_inputs import (
    RESERVATION_ID_PATH,
    TEMPLATE,
    LaunchInputs,
    parse_launch_inputs,
    surcharge_components,
    unbilled_machine_components,
)
from gpufleet.cost.pricing.pricers.aws.location import (
    find_possible_zones,
    find_region,
    parse_placement_inputs,
)
from gpufleet.cost.pricing.pricers.aws.volume import attached_volume_components
from gpufleet.cost.pricing.pricers.required_input import text_or_unpriced
from gpufleet.engine import StateResource

RESERVATION = "aws:ec2/capacityReservation:CapacityReservation"
OUTSIDE_STACK = "outside this stack"  # the target of a reservation that no resource here is


def price_ec2_instance(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return one instance; inputs that it leaves out may be in its launch template."""
    templates = (
        graph.find_referenced_resource(resource, ("launchTemplate", key), TEMPLATE) for key in ("id", "name")
    )
    template = next((each for each in templates if each), None)
    inputs = {**(template.inputs if template else {}), **resource.inputs}
    launch = parse_launch_inputs(inputs, resource.type)
    terms = graph.purchase_terms_of(resource, template, spot=launch.is_spot)
    if max_price := number_if_known(launch.max_spot_price):
        terms = replace(terms, max_price=max_price)
    region = find_region(resource, graph)
    instance_type = text_or_unpriced(launch.instance_type, "instance type")
    if isinstance(instance_type, UnpricedComponent):
        return [instance_type]
    context = MachinePartContext("aws", region, terms.pool)
    placement = parse_placement_inputs(resource.inputs)
    parts = [
        *attached_volume_components(launch.volumes, context),
        *public_address_components(
            resource,
            placement,
            graph,
            launch.public_address,
            context.with_billed_hours(terms.hours),
            is_in_default_subnet=placement.names_no_subnet and launch.placement.names_no_subnet,
        ),
        *surcharge_components(launch, context.with_billed_hours(terms.hours)),
    ]
    if (unbilled := unbilled_machine_components(launch, graph, resource, template)) is not None:
        return [*unbilled, *parts]
    machine = CostComponent(
        "machine",
        (instance_type,),
        "aws",
        region,
        terms=terms,
        hours_per_month=terms.billed_hours_per_month,
        claim=make_reservation_claim(resource, launch, graph) if terms.purchase != "spot" else None,
    )
    return [machine, *parts]


def make_reservation_claim(
    source: StateResource,
    launch: LaunchInputs,
    graph: ResourceGraph,
    group_zones: frozenset[str] = frozenset(),
) -> ReservationClaim | None:
    """Return the reservation that an instance or template targets, else any open one that matches.

    ``group_zones`` are the zones of the group that launches machines of a template.
    """
    if launch.refuses_reservations:
        return None
    if launch.reservation_id is not None:
        target = graph.find_referenced_resource(source, RESERVATION_ID_PATH, RESERVATION)
        return ReservationClaim(
            target_urn=target.urn if target else OUTSIDE_STACK,
            reservation_id=text_if_known(launch.reservation_id) or "",
        )
    zones = group_zones or find_possible_zones(source, launch.placement, graph)
    return ReservationClaim(
        accepts_open=True,
        zone=next(iter(zones)) if len(zones) == 1 else None,
        attributes=(launch.platform, launch.tenancy),
        possible_zones=zones,
    )
