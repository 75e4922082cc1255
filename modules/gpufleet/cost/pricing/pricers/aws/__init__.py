"""Pricers of AWS resources, which each module registers. ``reader`` says how they are written."""

from __future__ import annotations

from gpufleet.cost.pricing.pricers.aws.location import pricer
from gpufleet.cost.pricing.pricers.aws.native import COUNTERPARTS, EARLIER_NAMES
from gpufleet.cost.pricing.pricers.charge_table import load_charges, make_table_pricers
from gpufleet.cost.pricing.pricers.extensions import Pricer, import_modules

import_modules(__name__)
_PRICERS = make_table_pricers(load_charges("aws:"), pricer, EARLIER_NAMES | COUNTERPARTS) | pricer.pricers
PRICERS: dict[str, Pricer] = _PRICERS | {native: _PRICERS[name] for native, name in COUNTERPARTS.items()}
