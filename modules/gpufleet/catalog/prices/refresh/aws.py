"""What Amazon's sources share: clients with bounded retries, and what their errors mean to a refresh."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    NoCredentialsError,
    PartialCredentialsError,
    ProfileNotFound,
    TokenRetrievalError,
)
from botocore.parsers import ResponseParserError

from gpufleet.catalog.prices.refresh.feed import NoCredentials, Refused, Unreachable

LINUX = "Linux/UNIX"
HOME = "us-east-1"  # where the price list and the savings plans answer for all regions
PAGES = 200
BAD_PAGE_WAITS_S = (1.0, 4.0)
TERMS = {31536000: "1y", 94608000: "3y"}  # seconds, as reservations and savings plans give them
TERM_HOURS = {"1y": 8760, "3y": 26280}
UPFRONT = {"No Upfront": "none", "Partial Upfront": "partial", "All Upfront": "all"}
CONFIG = Config(connect_timeout=10, read_timeout=60, retries={"mode": "standard", "total_max_attempts": 6})
BAD_KEYS = frozenset({
    "InvalidClientTokenId", "SignatureDoesNotMatch", "ExpiredToken", "ExpiredTokenException", "RequestExpired",
    "UnrecognizedClientException", "InvalidSignatureException", "IncompleteSignature", "MissingAuthenticationToken",
})  # fmt: skip
NOT_HERE = frozenset({
    "AuthFailure", "OptInRequired", "UnauthorizedOperation", "AccessDenied", "AccessDeniedException",
    "UnsupportedOperation", "InvalidParameterValue", "InvalidParameter", "ValidationException",
    "InvalidParameterException", "InvalidAction",
})  # fmt: skip
Clients = Callable[[str, str], Any]


def client(service: str, region: str) -> Any:
    """Return a client of a service in a region, with the caller's own credentials."""
    make: Any = boto3.client  # one overload per service in the stubs; the name is only known here
    return make(service, region_name=region, config=CONFIG)


@contextmanager
def faults(permission: str, name: str) -> Iterator[None]:
    """Turn botocore's errors into a refresh's. ``permission`` is what the caller's policy must allow."""
    hint = f"give AWS credentials (AWS_PROFILE, AWS_ACCESS_KEY_ID ...) that allow {permission}"
    try:
        yield
    except (NoCredentialsError, PartialCredentialsError, ProfileNotFound, TokenRetrievalError) as error:
        raise NoCredentials(_one_line(error), hint=hint) from None
    except ClientError as error:
        code = str(error.response.get("Error", {}).get("Code", ""))
        if code in BAD_KEYS:
            raise NoCredentials(f"AWS does not take these credentials ({code})", hint=hint) from None
        if code in NOT_HERE:
            raise Refused(f"{name}: {code}", hint=hint) from None
        raise Unreachable(f"{name}: {_one_line(error)}") from None
    except (BotoCoreError, ValueError) as error:  # a page that is no JSON or XML comes as either
        raise Unreachable(f"{name}: {_one_line(error)}") from None


def items(
    call: Callable[..., Any], token: str, key: str, name: str, **given: Any
) -> Iterator[dict[str, Any]]:
    """Yield what stands under ``key`` on the pages of a call; ``token`` names the next page, in and out."""
    seen = set[str]()
    for _ in range(PAGES):
        page = _page(call, key, name, given)
        yield from page[key]
        following = page.get(token)
        if not following:
            return
        if following in seen:
            raise Unreachable(f"{name}: its pages go round in a circle")
        seen.add(following)
        given[token] = following
    raise Unreachable(f"{name}: more than {PAGES} pages")


def _page(call: Callable[..., Any], key: str, name: str, given: dict[str, Any]) -> dict[str, Any]:
    """Return one page. To botocore a body that cannot be read may be an answer with nothing in it, not an error."""
    for wait in (*BAD_PAGE_WAITS_S, None):
        try:
            page: dict[str, Any] = call(**given)
            if isinstance(page.get(key), list):
                return page
        except ResponseParserError:
            pass
        if wait is not None:
            time.sleep(wait)
    raise Unreachable(f"{name}: a page without {key} ({len(BAD_PAGE_WAITS_S) + 1} tries)")


@dataclass
class Offered:
    """Which machine types a region has, asked once each; None where the account may not ask."""

    clients: Clients = client
    _known: dict[str, frozenset[str] | None] = field(default_factory=dict)

    def types(self, region: str) -> frozenset[str] | None:
        """Return the types that can be had in a region."""
        if region not in self._known:
            try:
                with faults("ec2:DescribeInstanceTypeOfferings", "ec2"):
                    self._known[region] = self._ask(region)
            except (Refused, NoCredentials):
                self._known[region] = None
        return self._known[region]

    def _ask(self, region: str) -> frozenset[str]:
        call = self.clients("ec2", region).describe_instance_type_offerings
        given = {"LocationType": "region", "MaxResults": 1000}
        found = items(call, "NextToken", "InstanceTypeOfferings", "ec2", **given)
        return frozenset(each["InstanceType"] for each in found)


def _one_line(error: Exception) -> str:
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__
