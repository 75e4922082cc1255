"""The subscription of Azure pools: somebody must have named it.

With a login of the Azure CLI, the provider takes the CLI's default subscription, whatever that is at the moment; with
any other credential it fails halfway (pulumi/pulumi-azure-native, provider/pkg/provider/auth_azidentity.go).
"""

from __future__ import annotations

import os

import pulumi

from gpufleet.errors import InputError
from gpufleet.fleet import Fleet

SUBSCRIPTION_SETTING = "subscriptionId"  # of the namespace azure-native in the stack's configuration
SUBSCRIPTION_VARIABLE = "ARM_SUBSCRIPTION_ID"
# A rehearsal's provider has a subscription of its own; a program that is only priced builds nothing.
BUILDS_NOTHING_REAL = ("GPUFLEET_REHEARSAL", "GPUFLEET_WITHOUT_ENGINE")
PACKAGE_MEMBER = "azure-native:compute:VirtualMachine"  # any member: it names the package of the provider


def check_azure_subscription(fleet: Fleet, where: str, opts: pulumi.ResourceOptions | None = None) -> None:
    """Raise InputError if neither the spec nor the provider's own configuration names a subscription.

    Call it before the first resource is registered. ``opts`` are those of the pools: a provider in them, or of their
    parent, is a choice that somebody made.
    """
    names = [pool.name for pool in fleet.pools if pool.cloud == "azure"]
    if not names or fleet.azure is not None or _has_own_provider(opts):
        return
    if pulumi.Config("azure-native").get(SUBSCRIPTION_SETTING):
        return
    if any(os.environ.get(name) for name in (SUBSCRIPTION_VARIABLE, *BUILDS_NOTHING_REAL)):
        return
    raise InputError(
        f"the subscription of {', '.join(names)} is missing",
        where=where,
        key="azure.subscription",
        remedy=f"set azure: {{subscription: …}}, azure-native:{SUBSCRIPTION_SETTING} or {SUBSCRIPTION_VARIABLE}",
    )


def _has_own_provider(opts: pulumi.ResourceOptions | None) -> bool:
    if opts is None:
        return False
    providers = opts.providers or ()
    listed = list(providers.values() if isinstance(providers, dict) else providers)
    listed += [opts.provider] if opts.provider else []
    if any(provider.package == "azure-native" for provider in listed):
        return True
    return opts.parent is not None and opts.parent.get_provider(PACKAGE_MEMBER) is not None
