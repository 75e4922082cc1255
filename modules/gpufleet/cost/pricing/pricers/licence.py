"""Licences of systems that clouds bill by the hour on top of a machine.

A pricer lists a licence as a component. Where the price list has the machine with its system, the machine's price
includes the licence; otherwise the licence is listed as unpriced and the machine is priced with Linux.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gpufleet.catalog import Price
from gpufleet.cost.pricing.component import Components, CostComponent, LicenceComponent, UnpricedComponent
from gpufleet.cost.pricing.pricers.reader import Parts, Reader

# Parts of the names of images and platforms, the brand, and the suffix of machines with that system in the price list.
LICENCES = (
    (("windows",), "Windows", "windows"),
    (("rhel", "red hat", "redhat"), "Red Hat", "rhel"),
    (("suse", "sles"), "SUSE", "sles"),
)
FREE_SYSTEMS = ("opensuse", "byol", "byos")
SAP = "sap"  # images for SAP have another licence: rhel-sap, sles-sap
FREE_SQL_SERVERS = ("express", "sqldev", "developer")
SQL_SERVER_EXCLUDED = "its SQL Server licence is not included"
LINUX_ONLY = "its {} licence is not included: these prices are for Linux machines"
SYSTEM_UNKNOWN = "priced as Linux: {} is not known until deployment"
LICENCE_UNCOVERED = "its licence is not covered by what pays for the machine"

PriceLookup = Callable[[str, str, str, str], Price | None]


def system_licence_components(system: str | None, hidden_input: str = "its image") -> Components:
    """Return the licences of a system, by its platform's or image's name; empty for plain Linux.

    A system that is not known, because of an input, is None: it counts as Linux, of which the machine has a note.
    """
    if system is None:
        return [LicenceComponent(SYSTEM_UNKNOWN.format(hidden_input), "licence")]
    name = system.lower()
    brand, suffix = next(
        ((brand, suffix) for parts, brand, suffix in LICENCES if any(part in name for part in parts)),
        ("", ""),
    )
    if not brand or any(free in name for free in FREE_SYSTEMS):
        return []
    if SAP in name and suffix != "windows":
        suffix = f"{suffix}-{SAP}"
    licences: Components = [LicenceComponent(LINUX_ONLY.format(brand), "licence", suffix)]
    if "sql" in name and not any(edition in name for edition in FREE_SQL_SERVERS):
        licences.append(UnpricedComponent(SQL_SERVER_EXCLUDED, "licence:sql_server"))
    return licences


def list_licences(machine: Reader, system: str | None, hidden_input: str = "its image") -> Parts:
    """Yield the licences of a machine's system, as components of the pool that the reader is for."""
    for licence in system_licence_components(system, hidden_input):
        yield replace(licence, component=machine.of(licence.component).component)


def include_priced_licences(components: Components, find_machine_price: PriceLookup) -> Components:
    """Return the components of a resource; machines that have a price with their system include the licence."""
    licence = next((each for each in components if isinstance(each, LicenceComponent)), None)
    if licence and not licence.system:
        return _with_system_note(components, licence.reason)
    machines = [each for each in components if isinstance(each, CostComponent) and _is_machine(each)]
    if licence is None or not machines:
        return components
    with_system = {id(each): replace(each, system=licence.system) for each in machines}
    has_prices = all(
        find_machine_price(each.cloud, each.region, item, "on_demand")
        for each in with_system.values()
        for item in each.priced_items
    )
    if not has_prices:
        return components
    return [with_system.get(id(each), each) for each in components if not isinstance(each, LicenceComponent)]


def _with_system_note(components: Components, note: str) -> Components:
    """Return the components without the licence of a system that is not known, which is a note of the machines."""
    return [
        replace(each, note=each.note or note)
        if isinstance(each, CostComponent) and _is_machine(each)
        else each
        for each in components
        if not isinstance(each, LicenceComponent)
    ]


def uncovered_licence(component: CostComponent) -> UnpricedComponent | None:
    """Return the licence of a machine that a reservation or commitment pays for; AWS's include the system."""
    if not component.system or component.cloud == "aws":
        return None
    return UnpricedComponent(LICENCE_UNCOVERED, "licence")


def _is_machine(component: CostComponent) -> bool:
    return not component.is_part and component.component.partition(":")[0] == "machine"
