"""Shared code of Amazon's sources: clients with bounded retries, translation of errors."""

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

from gpufleet.catalog.prices.refresh.source import MissingCredentials, RequestRejected, SourceUnavailable

LINUX_PRODUCT = "Linux/UNIX"
# What EC2 calls the operating systems of prices, with the suffix of our item and the operation in bills
# ("AMI billing information fields", Amazon EC2 user guide).
SUFFIX_BY_PRODUCT = {
    LINUX_PRODUCT: "",
    "Windows": ":windows",
    "Red Hat Enterprise Linux": ":rhel",
    "SUSE Linux": ":sles",
}
OPERATION_BY_PRODUCT = {
    LINUX_PRODUCT: "RunInstances",
    "Windows": "RunInstances:0002",
    "Red Hat Enterprise Linux": "RunInstances:0010",
    "SUSE Linux": "RunInstances:000g",
}
PRICING_REGION = "us-east-1"  # serves price list and savings plans of all regions
MAX_PAGES = 200
BAD_PAGE_WAITS_S = (1.0, 4.0)
TERMS = {31536000: "1y", 94608000: "3y"}  # seconds, as reservations and savings plans give them
TERM_HOURS = {"1y": 8760, "3y": 26280}
UPFRONT_OPTIONS = {"No Upfront": "none", "Partial Upfront": "partial", "All Upfront": "all"}
CLIENT_CONFIG = Config(
    connect_timeout=10, read_timeout=60, retries={"mode": "standard", "total_max_attempts": 6}
)
CREDENTIAL_ERROR_CODES = frozenset({
    "InvalidClientTokenId", "SignatureDoesNotMatch", "ExpiredToken", "ExpiredTokenException", "RequestExpired",
    "UnrecognizedClientException", "InvalidSignatureException", "IncompleteSignature", "MissingAuthenticationToken",
})  # fmt: skip
REJECTION_CODES = frozenset({
    "AuthFailure", "OptInRequired", "UnauthorizedOperation", "AccessDenied", "AccessDeniedException",
    "UnsupportedOperation", "InvalidParameterValue", "InvalidParameter", "ValidationException",
    "InvalidParameterException", "InvalidAction",
})  # fmt: skip
ClientFactory = Callable[[str, str], Any]


def create_aws_client(service: str, region: str) -> Any:
    """Return a client of a service in a region, with the caller's own credentials."""
    make_client: Any = boto3.client  # one overload per service in the stubs; the name is only known here
    return make_client(service, region_name=region, config=CLIENT_CONFIG)


@contextmanager
def translate_boto_errors(permission: str, name: str) -> Iterator[None]:
    """Translate botocore's errors into those of a refresh. ``permission`` is the IAM action for the hint."""
    hint = f"give AWS credentials (AWS_PROFILE, AWS_ACCESS_KEY_ID ...) that allow {permission}"
    try:
        yield
    except (NoCredentialsError, PartialCredentialsError, ProfileNotFound, TokenRetrievalError) as error:
        raise MissingCredentials(_first_line(error), hint=hint) from None
    except ClientError as error:
        code = str(error.response.get("Error", {}).get("Code", ""))
        if code in CREDENTIAL_ERROR_CODES:
            raise MissingCredentials(f"AWS rejects these credentials ({code})", hint=hint) from None
        if code in REJECTION_CODES:
            raise RequestRejected(f"{name}: {code}", hint=hint) from None
        raise SourceUnavailable(f"{name}: {_first_line(error)}") from None
    except (BotoCoreError, ValueError) as error:  # an unreadable page raises either
        raise SourceUnavailable(f"{name}: {_first_line(error)}") from None


def iterate_page_items(
    call: Callable[..., Any], token_parameter: str, items_key: str, name: str, **parameters: Any
) -> Iterator[dict[str, Any]]:
    """Yield the items under ``items_key`` on all pages; ``token_parameter`` names the parameter for the next page."""
    seen_tokens = set[str]()
    for _ in range(MAX_PAGES):
        page = _fetch_page(call, items_key, name, parameters)
        yield from page[items_key]
        next_token = page.get(token_parameter)
        if not next_token:
            return
        if next_token in seen_tokens:
            raise SourceUnavailable(f"{name}: the API repeats a page")
        seen_tokens.add(next_token)
        parameters[token_parameter] = next_token
    raise SourceUnavailable(f"{name}: the API returned more than {MAX_PAGES} pages")


def _fetch_page(call: Callable[..., Any], key: str, name: str, parameters: dict[str, Any]) -> dict[str, Any]:
    """Return one page; retry unreadable bodies, which botocore may return as an empty response."""
    for wait_s in (*BAD_PAGE_WAITS_S, None):
        try:
            page: dict[str, Any] = call(**parameters)
            if isinstance(page.get(key), list):
                return page
        except ResponseParserError:
            pass
        if wait_s is not None:
            time.sleep(wait_s)
    raise SourceUnavailable(
        f"{name}: the API returned a page without {key} ({len(BAD_PAGE_WAITS_S) + 1} tries)"
    )


@dataclass
class RegionMachineTypes:
    """The machine types of each region, requested once; None if the account lacks the permission."""

    create_client: ClientFactory = create_aws_client
    _types_by_region: dict[str, frozenset[str] | None] = field(default_factory=dict)

    def fetch_machine_types(self, region: str) -> frozenset[str] | None:
        """Return the machine types that a region offers."""
        if region not in self._types_by_region:
            try:
                with translate_boto_errors("ec2:DescribeInstanceTypeOfferings", "ec2"):
                    self._types_by_region[region] = self._fetch_types(region)
            except (RequestRejected, MissingCredentials):
                self._types_by_region[region] = None
        return self._types_by_region[region]

    def _fetch_types(self, region: str) -> frozenset[str]:
        call = self.create_client("ec2", region).describe_instance_type_offerings
        parameters = {"LocationType": "region", "MaxResults": 1000}
        offerings = iterate_page_items(call, "NextToken", "InstanceTypeOfferings", "ec2", **parameters)
        return frozenset(offering["InstanceType"] for offering in offerings)


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__
