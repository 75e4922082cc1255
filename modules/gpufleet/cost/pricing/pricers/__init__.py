"""Pricers: the cost components of each type of resource, before prices. ``PRICERS`` is the registry.

Each cloud of ``catalog.CLOUDS`` has a module or package of its name here, with a mapping ``PRICERS`` of its own.
A pricer takes a resource and the graph of its program. It returns cost components (how many of which item,
where, on which terms) and unpriced components (with the reason). It knows no prices. A type that is neither
here nor among the free ones of ``data/free_types.csv`` is listed as unpriced. Other distributions add pricers
by the entry-point group ``gpufleet.pricers``.
"""

from __future__ import annotations

from importlib import import_module
from typing import cast

from gpufleet.catalog import CLOUDS
from gpufleet.cost.pricing.pricers import kubernetes, kubernetes_cluster, onprem
from gpufleet.cost.pricing.pricers.extensions import Pricer, load_extension_pricers


def _load_cloud_pricers(cloud: str) -> dict[str, Pricer]:
    return cast("dict[str, Pricer]", import_module(f"{__name__}.{cloud}").PRICERS)


PRICERS: dict[str, Pricer] = {
    **{type_: pricer for cloud in CLOUDS for type_, pricer in _load_cloud_pricers(cloud).items()},
    **kubernetes_cluster.pricer.pricers,
    **onprem.pricer.pricers,
}


def load_pricers() -> dict[str, Pricer]:
    """Return every pricer by resource type; those of other distributions replace ours."""
    return PRICERS | load_extension_pricers()


def find_pricer(type_token: str) -> Pricer | None:
    """Return the pricer of a type; of a Kubernetes object also by its group and kind."""
    return load_pricers().get(type_token) or kubernetes.find_kubernetes_pricer(type_token)
