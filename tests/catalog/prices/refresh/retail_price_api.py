"""A fake of Azure's Retail Prices API that evaluates filters, pages, and refuses what the real one refuses.

Behaviour: Microsoft's page "Azure Retail Prices overview" (fields of ``$filter``, case-sensitive values from
2023-01-01-preview, 1,000 records a page, ``NextPageLink`` with port 443 and ``$skip``). A filter that is not OData, or
that names a field that cannot be filtered, is answered with HTTP 400.
"""

from __future__ import annotations

import json
import re
from urllib.parse import urlencode

from .conftest import FakeResponse

PAGE_SIZE = 1000
FILTER_FIELDS = {
    "armRegionName", "location", "meterId", "meterName", "productId", "skuId", "productName", "skuName", "serviceName",
    "serviceId", "serviceFamily", "priceType", "armSkuName",
}  # fmt: skip
TOKEN = re.compile(
    r"\s*(?:(?P<text>'(?:[^']|'')*')|(?P<word>[A-Za-z]+)|(?P<mark>[(),]))",
)


class FilterError(Exception):
    """The server rejects the filter."""


def split_tokens(text):
    tokens, at = [], 0
    while at < len(text.rstrip()):
        match = TOKEN.match(text, at)
        if not match:
            raise FilterError(f"syntax error at position {at}")
        tokens.append(match["text"] or match["word"] or match["mark"])
        at = match.end()
    return tokens


class FilterParser:
    """Parses ``or``, ``and``, parentheses, ``field eq 'text'`` and ``contains(field, 'text')``."""

    def __init__(self, text):
        self.tokens = split_tokens(text)

    def parse(self):
        condition = self.parse_or()
        if self.tokens:
            raise FilterError(f"unexpected {self.tokens[0]}")
        return condition

    def take(self, expected=None):
        if not self.tokens or (expected and self.tokens[0] != expected):
            raise FilterError(f"expected {expected or 'more'}")
        return self.tokens.pop(0)

    def parse_or(self):
        conditions = [self.parse_and()]
        while self.tokens[:1] == ["or"]:
            self.take()
            conditions.append(self.parse_and())
        return lambda item: any(condition(item) for condition in conditions)

    def parse_and(self):
        conditions = [self.parse_term()]
        while self.tokens[:1] == ["and"]:
            self.take()
            conditions.append(self.parse_term())
        return lambda item: all(condition(item) for condition in conditions)

    def parse_term(self):
        word = self.take()
        if word == "(":
            condition = self.parse_or()
            self.take(")")
            return condition
        if word == "contains":
            self.take("(")
            field = self.take_field(self.take())
            self.take(",")
            text = self.take_text()
            self.take(")")
            return lambda item: text in str(item.get(field) or "")
        field = self.take_field(word)
        self.take("eq")
        text = self.take_text()
        return lambda item: str(item.get(field) or "") == text

    def take_field(self, name):
        if name not in FILTER_FIELDS:
            raise FilterError(f"{name} cannot be filtered")
        return "type" if name == "priceType" else name

    def take_text(self):
        text = self.take()
        if not text.startswith("'"):
            raise FilterError(f"expected a text, got {text}")
        return text[1:-1].replace("''", "'")


def build_retail_price_api(items, base):
    """Return what a server answers: pages of the items that match the filter; ``base`` gives its address."""

    def serve(path, query):
        if path != "/api/retail/prices":
            return FakeResponse(b"{}", 404)
        try:
            matches = list(filter(FilterParser(query["$filter"]).parse(), items))
        except FilterError as error:
            return FakeResponse(json.dumps({"Error": {"Message": f"Invalid OData: {error}"}}).encode(), 400)
        start = int(query.get("$skip", 0))
        page, link = matches[start : start + PAGE_SIZE], None
        if start + PAGE_SIZE < len(matches):
            link = f"{base()}{path}?{urlencode({**query, '$skip': start + PAGE_SIZE})}"
        return {"BillingCurrency": "USD", "Items": page, "NextPageLink": link, "Count": len(page)}

    return serve
