"""Instances that EC2 lists: the edge is one listing by tag, what it answers is read by a pure function."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from functools import cache
from typing import Any

from gpufleet.catalog.prices.refresh.aws import (
    ClientFactory,
    iterate_page_items,
    translate_boto_errors,
)
from gpufleet.errors import EnvironmentFault
from gpufleet.fleet import AwsAccount
from gpufleet.nodes.cloud_api.account import (
    CONNECT_TIMEOUT_S,
    READ_TIMEOUT_S,
    STACK_TAG,
    TRIES,
    take_bounded,
)
from gpufleet.nodes.cloud_api.instance import CloudGroup, CloudInstance, build_instance_report
from gpufleet.nodes.source_report import SourceReport

_EXISTS = ["pending", "running", "stopping", "stopped"]
_GROUP_TAG = "aws:autoscaling:groupName"
_PAGE_SIZE = 500


def create_client(service: str, region: str, session: Any = None) -> Any:
    """Return a client with small timeouts and few tries: a person waits for the answer."""
    import boto3
    from botocore.config import Config

    config = Config(
        connect_timeout=CONNECT_TIMEOUT_S,
        read_timeout=READ_TIMEOUT_S,
        retries={"mode": "standard", "total_max_attempts": TRIES},
    )
    make_client: Any = (
        session or boto3
    ).client  # one overload per service in the stubs; the name is only known here
    return make_client(service, region_name=region, config=config)


def build_client_factory(account: AwsAccount | None) -> ClientFactory:
    """Return what creates clients with an account's credentials, the caller's own without an account.

    A call raises EnvironmentFault if the credentials cannot be had, or are those of another account.
    """
    if account is None:
        return create_client

    @cache
    def get_session(region: str) -> Any:
        import boto3

        name = f"aws {account.role_arn or account.profile}"
        with translate_boto_errors("sts:AssumeRole" if account.role_arn else "sts:GetCallerIdentity", name):
            session = boto3.Session(profile_name=account.profile)
            if account.role_arn:
                sts = create_client("sts", region, session)
                keys = sts.assume_role(RoleArn=account.role_arn, RoleSessionName="gpufleet")["Credentials"]
                session = boto3.Session(keys["AccessKeyId"], keys["SecretAccessKey"], keys["SessionToken"])
            if account.allowed_account_id:
                found = create_client("sts", region, session).get_caller_identity()["Account"]
                if found != account.allowed_account_id:
                    problem = (
                        f"{name}: the credentials are of account {found}, not {account.allowed_account_id}"
                    )
                    raise EnvironmentFault(problem, hint="nothing was read or changed there")
        return session

    return lambda service, region: create_client(service, region, get_session(region))


def fetch_aws_instance_report(
    stack_tag: str,
    region: str,
    observed_at: datetime,
    groups: Iterable[CloudGroup] = (),
    create: ClientFactory = create_client,
    *,
    account: str = "",
    prefer_public: bool = False,
) -> SourceReport:
    """Return a stack's instances in one region and account; EnvironmentFault when the API does not answer."""
    listed = list_aws_instances(region, {f"tag:{STACK_TAG}": [stack_tag]}, create)
    instances = [each for each in listed if each.is_of(stack_tag, account)]
    regional = [group for group in groups if (group.cloud, group.region) == ("aws", region)]
    source = ":".join(filter(None, ("aws", stack_tag, region, account)))
    return build_instance_report(instances, source, observed_at, regional, prefer_public=prefer_public)


def list_aws_instances(
    region: str, filters: Mapping[str, list[str]], create: ClientFactory = create_client
) -> Iterator[CloudInstance]:
    """Yield the instances of a region that exist and match the filters of DescribeInstances."""
    name = f"aws {region}"
    parameters = {
        "Filters": [
            {"Name": key, "Values": values}
            for key, values in {"instance-state-name": _EXISTS, **filters}.items()
        ],
        "MaxResults": _PAGE_SIZE,
    }
    with translate_boto_errors("ec2:DescribeInstances", name):
        call = create("ec2", region).describe_instances
        reservations = iterate_page_items(call, "NextToken", "Reservations", name, **parameters)
        answers = (answer for reservation in reservations for answer in reservation.get("Instances") or ())
        yield from (parse_aws_instance(answer, region) for answer in take_bounded(answers, name))


def parse_aws_instance(answer: Mapping[str, Any], region: str) -> CloudInstance:
    """Return one instance of DescribeInstances' answer. Pure."""
    tags = read_aws_tags(answer.get("Tags"))
    instance_id = str(answer["InstanceId"])
    group = tags.get(_GROUP_TAG, "")
    launched = answer.get("LaunchTime")
    return CloudInstance(
        cloud="aws",
        instance_id=instance_id,
        resource_id=instance_id,
        name=_name(instance_id, tags),
        region=region,
        machine=str(answer["InstanceType"]),
        state=str(answer.get("State", {}).get("Name", "")),
        lifecycle=str(answer.get("InstanceLifecycle") or "on-demand"),
        zone=str(answer.get("Placement", {}).get("AvailabilityZone") or ""),
        private_address=str(answer.get("PrivateIpAddress") or ""),
        public_address=str(answer.get("PublicIpAddress") or ""),
        group=group,
        created_at=launched if isinstance(launched, datetime) else None,
        tags=tags,
    )


def read_aws_tags(listed: Any) -> dict[str, str]:
    """Return a resource's tags as a mapping."""
    return {str(tag["Key"]): str(tag.get("Value", "")) for tag in listed or ()}


def _name(instance_id: str, tags: Mapping[str, str]) -> str:
    """Members of a group share its tags: their names carry the instance, as in Pulumi's state."""
    if _GROUP_TAG in tags or "gpufleet-node" not in tags:
        group = "-".join(tags.get(f"gpufleet-{part}", "aws") for part in ("stack", "pool"))
        return f"{group}-{instance_id.removeprefix('i-')[:8]}"
    return tags["gpufleet-node"]
