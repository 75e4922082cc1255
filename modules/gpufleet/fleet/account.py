"""Accounts of the clouds in which pools are built, for Pulumi's providers and for our own calls of the clouds' APIs."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from gpufleet.fleet.frozen_model import FrozenModel, build_pattern_annotations, build_spec_error

_profile, _profile_schema = build_pattern_annotations(
    r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}",
    "a profile of ~/.aws/config: letters, digits, dots, hyphens, underscores",
)
_role, _role_schema = build_pattern_annotations(
    r"arn:aws(-us-gov|-cn)?:iam::\d{12}:role/[A-Za-z0-9+=,.@_/-]{1,576}",
    "the ARN of a role like arn:aws:iam::123456789012:role/gpufleet",
)
_account_id, _account_id_schema = build_pattern_annotations(
    r"\d{12}", "the 12 digits of an AWS account, in quotes"
)
_project, _project_schema = build_pattern_annotations(
    r"[a-z][a-z0-9-]{4,28}[a-z0-9]", "a project id, 6 to 30 lowercase letters, digits, hyphens"
)
_service_account, _service_account_schema = build_pattern_annotations(
    r"[a-z][a-z0-9-]{4,28}[a-z0-9]@[a-z0-9-]+\.iam\.gserviceaccount\.com",
    "a service account like gpu-nodes@my-project.iam.gserviceaccount.com",
)
_subscription, _subscription_schema = build_pattern_annotations(
    r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "a subscription id, a lowercase UUID"
)


class AwsAccount(FrozenModel):
    """Where AWS pools are built; without it, the caller's own credentials decide."""

    profile: Annotated[
        Annotated[str, _profile, _profile_schema] | None,
        Field(description="the profile of ~/.aws/config whose credentials are used"),
    ] = None
    role_arn: Annotated[
        Annotated[str, _role, _role_schema] | None,
        Field(description="the role that is assumed, with the profile's credentials or the caller's"),
    ] = None
    account_id: Annotated[
        Annotated[str, _account_id, _account_id_schema] | None,
        Field(description="the only account in which anything is done; that of role_arn when left out"),
    ] = None

    @property
    def allowed_account_id(self) -> str | None:
        """Return the only account that may be used, None if any may."""
        return self.role_arn.split(":")[4] if self.role_arn else self.account_id

    @model_validator(mode="after")
    def _check_keys(self) -> Self:
        if self.profile is None and self.role_arn is None:
            raise build_spec_error("has neither profile nor role_arn", "give one of them")
        if self.role_arn and self.account_id not in (None, self.allowed_account_id):
            raise build_spec_error(
                f"account_id is {self.account_id}, but the role is in {self.allowed_account_id}",
                "remove account_id",
            )
        return self


class GcpAccount(FrozenModel):
    """Where GCP pools are built; without it, the provider's own configuration decides."""

    project: Annotated[str, _project, _project_schema]
    service_account: Annotated[
        Annotated[str, _service_account, _service_account_schema] | None,
        Field(description="identity of the nodes, e.g. to read a bucket; without it they have none"),
    ] = None


class AzureAccount(FrozenModel):
    """Where Azure pools are built; without it, the provider's own configuration decides."""

    subscription: Annotated[str, _subscription, _subscription_schema]


class NamedAccount(FrozenModel):
    """A further account for some pools, of one cloud: keys as those of the fleet."""

    aws: AwsAccount | None = None
    gcp: GcpAccount | None = None
    azure: AzureAccount | None = None

    @property
    def cloud(self) -> str:
        return next(name for name in NamedAccount.model_fields if getattr(self, name) is not None)

    @model_validator(mode="after")
    def _check_one_cloud(self) -> Self:
        named = [name for name in NamedAccount.model_fields if getattr(self, name) is not None]
        if len(named) != 1:
            raise build_spec_error(
                f"is of {' and '.join(named) or 'no cloud'}",
                "give one of aws: {profile: …}, gcp: {project: …} and azure: {subscription: …}",
            )
        return self
