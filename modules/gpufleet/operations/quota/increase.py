"""Increase requests, ready to send: the vendor's own command, and the REST call that it makes. Nothing sends them."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass

from gpufleet.fleet import AwsAccount

AZURE_QUOTA_VERSION = "2023-02-01"  # learn.microsoft.com/rest/api/quota/quota/create-or-update


@dataclass(frozen=True)
class IncreaseRequest:
    """A request for a new limit. ``url`` is empty where the vendor's API has no plain REST call."""

    limit: int
    command: str
    method: str = ""
    url: str = ""
    body: str = ""


def build_aws_request(
    account: AwsAccount | None, region: str, quota_code: str, limit: int
) -> IncreaseRequest:
    """Return the request for an EC2 quota (Service Quotas, RequestServiceQuotaIncrease).

    The AWS CLI takes no role: where the spec names one, the command ends with whose credentials it needs.
    """
    options = ["--service-code", "ec2", "--quota-code", quota_code, "--desired-value", str(limit)]
    command = ["aws", "service-quotas", "request-service-quota-increase", *options, "--region", region]
    if account and account.profile and not account.role_arn:
        command += ["--profile", account.profile]
    role = f"  # with the credentials of {account.role_arn}" if account and account.role_arn else ""
    return IncreaseRequest(limit, shlex.join(command) + role)


def build_gcp_request(project: str, quota_id: str, dimensions: dict[str, str], limit: int) -> IncreaseRequest:
    """Return the request for a quota of Compute Engine (Cloud Quotas, quotaPreferences.create)."""
    joined = ",".join(f"{key}={value}" for key, value in sorted(dimensions.items()))
    command = ["gcloud", "quotas", "preferences", "create", "--service", "compute.googleapis.com"]
    command += ["--project", project, "--quota-id", quota_id, "--preferred-value", str(limit)]
    command += [f"--dimensions={joined}"] if joined else []
    body = {
        "service": "compute.googleapis.com",
        "quotaId": quota_id,
        "quotaConfig": {"preferredValue": str(limit)},
        "dimensions": dimensions,
    }
    url = f"https://cloudquotas.googleapis.com/v1/projects/{project}/locations/global/quotaPreferences"
    return IncreaseRequest(limit, shlex.join(command), "POST", url, json.dumps(body, sort_keys=True))


def build_azure_request(subscription: str, region: str, bucket: str, limit: int) -> IncreaseRequest:
    """Return the request for a quota of Microsoft.Compute (Microsoft.Quota, quotas)."""
    scope = f"/subscriptions/{subscription}/providers/Microsoft.Compute/locations/{region}"
    body = {
        "properties": {
            "limit": {"limitObjectType": "LimitValue", "value": limit},
            "name": {"value": bucket},
        }
    }
    command = ["az", "quota", "update", "--resource-name", bucket, "--scope", scope]
    command += ["--limit-object", f"value={limit}"]
    url = (
        f"https://management.azure.com{scope}/providers/Microsoft.Quota/quotas/{bucket}"
        f"?api-version={AZURE_QUOTA_VERSION}"
    )
    return IncreaseRequest(limit, shlex.join(command), "PUT", url, json.dumps(body, sort_keys=True))
