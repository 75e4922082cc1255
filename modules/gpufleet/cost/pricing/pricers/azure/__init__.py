"""Pricers of Azure resources, which each module registers. ``reader`` says how they are written."""

from __future__ import annotations

from gpufleet.cost.pricing.pricers.azure.location import pricer
from gpufleet.cost.pricing.pricers.charge_table import load_charges, make_table_pricers
from gpufleet.cost.pricing.pricers.extensions import Pricer, import_modules

import_modules(__name__)
PRICERS: dict[str, Pricer] = make_table_pricers(load_charges("azure"), pricer) | pricer.pricers
