"""Test pricers of another installed distribution."""

from __future__ import annotations

import sys

import pytest

from gpufleet import cost
from gpufleet.cost.pricing.pricers.extensions import load_extension_pricers
from gpufleet.errors import EnvironmentFault

CODE = """
from decimal import Decimal

from gpufleet.cost import CostComponent, UnpricedComponent
from gpufleet.cost.inputs.terms import PurchaseTerms

PRICERS = {
    "acme:index:Box": lambda resource, graph: [
        CostComponent("machine", ("g5.2xlarge",), "aws", "us-east-1", terms=graph.purchase_terms_of(resource))
    ],
    "acme:index:Bad": lambda resource, graph: 1 / 0,
    "aws:ebs/volume:Volume": lambda resource, graph: [UnpricedComponent("ours gives way")],
}
"""


@pytest.fixture
def install_extension(tmp_path, monkeypatch):
    """Install a distribution with these pricers the way an installer leaves it: package and metadata."""

    def install(code=CODE, value="acme_pricers:PRICERS"):
        (tmp_path / "acme_pricers.py").write_text(code)
        info = tmp_path / "acme_pricers-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-pricers\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[gpufleet.pricers]\nacme = {value}\n")
        monkeypatch.syspath_prepend(str(tmp_path))
        load_extension_pricers.cache_clear()

    yield install
    load_extension_pricers.cache_clear()
    sys.modules.pop("acme_pricers", None)


def test_extension_prices_an_unknown_resource_type(install_extension, make_resource, book):
    install_extension()
    bill = cost.price_resources([make_resource("box", type_="acme:index:Box", inputs={})], book)
    assert [(charge.item, str(charge.usd_per_hour.expected)) for charge in bill.charges] == [
        ("g5.2xlarge", "1.212")
    ]


def test_failing_extension_leaves_only_its_resource_unpriced(install_extension, make_resource, book):
    install_extension()
    bill = cost.price_resources(
        [make_resource("bad", type_="acme:index:Bad", inputs={}), make_resource("a")], book
    )
    assert [gap.reason for gap in bill.unpriced_resources] == [
        "the pricer acme failed: ZeroDivisionError: division by zero"
    ]
    assert any(charge.name == "a" for charge in bill.charges)


def test_extension_overrides_a_built_in_pricer(install_extension, make_resource, book):
    install_extension()
    bill = cost.price_resources([make_resource("v", type_="aws:ebs/volume:Volume", inputs={"size": 1})], book)
    assert [gap.reason for gap in bill.unpriced_resources] == ["ours gives way"]


@pytest.mark.parametrize(
    ("code", "value", "message"),
    [
        (
            "raise OSError('no')\n",
            "acme_pricers:PRICERS",
            "pricers acme of acme-pricers cannot be loaded: OSError: no",
        ),
        ("PRICERS = [1]\n", "acme_pricers:PRICERS", "are not a mapping"),
        ("", "acme_pricers:NOTHING", "cannot be loaded: AttributeError"),
    ],
)
def test_extension_that_cannot_be_loaded_is_reported(install_extension, make_resource, code, value, message):
    install_extension(code, value)
    with pytest.raises(EnvironmentFault, match=message):
        cost.price_resources([make_resource()])


def test_without_extensions_only_built_in_pricers_are_used():
    load_extension_pricers.cache_clear()
    assert load_extension_pricers() == {}
