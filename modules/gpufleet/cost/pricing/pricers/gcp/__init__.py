"""Pricers of Google Cloud resources, which each module registers. ``reader`` says how they are written."""

from __future__ import annotations

from gpufleet.cost.pricing.pricers.charge_table import load_charges, make_table_pricers
from gpufleet.cost.pricing.pricers.extensions import Pricer, import_modules
from gpufleet.cost.pricing.pricers.gcp.location import pricer

import_modules(__name__)
PRICERS: dict[str, Pricer] = make_table_pricers(load_charges("gcp:"), pricer) | pricer.pricers
