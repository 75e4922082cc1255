"""Firewalls, VPN connections and API caches, with a price by their settings."""

from __future__ import annotations

from gpufleet.cost.pricing.pricers.aws.location import pricer
from gpufleet.cost.pricing.pricers.reader import GLOBAL, Parts, Reader


@pricer("aws:wafv2/webAcl:WebAcl")
def price_web_acl(acl: Reader) -> Parts:
    """Yield a list, its rules, and the requests that it checks."""
    scope = acl.choice("scope", ("CLOUDFRONT", "REGIONAL"), "REGIONAL")
    place = acl.within(GLOBAL) if scope == "CLOUDFRONT" else acl
    yield place.of("web_acl").part("waf:web_acl")
    with place.of("rules") as rules:
        yield rules.part("waf:rule", rules.count("rules", "the list of rules", 0))
    yield place.of("requests").used("waf:request", "monthly_requests", listed=False)


@pricer("aws:ec2/vpnConnection:VpnConnection")
def price_vpn_connection(connection: Reader) -> Parts:
    """Yield a VPN connection, and its attachment to a transit gateway."""
    yield connection.of("connection").part("vpn:connection")
    if connection.has("transitGatewayId"):
        yield connection.of("attachment").part("transit_gateway:attachment")
    with connection.of("acceleration") as acceleration:
        if acceleration.flag("enableAcceleration"):
            raise acceleration.refuse("acceleration is not in the price list")


@pricer("aws:apigateway/stage:Stage")
def price_api_stage(stage: Reader) -> Parts:
    """Yield the cache of a stage; one without a cache is free, since its API bills the requests."""
    with stage.of("cache") as cache:
        if cache.flag("cacheClusterEnabled", "whether it has a cache"):
            yield cache.part(f"api_gateway:cache:{cache.text('cacheClusterSize', 'cache size')}")


@pricer("aws:dms/replicationInstance:ReplicationInstance")
def price_replication_instance(replication: Reader) -> Parts:
    """Yield an instance of the Database Migration Service, and its standby."""
    with replication.of("instance") as instance:
        kind = instance.text("replicationInstanceClass", "instance class")
        yield instance.instances(f"dms:{kind}", instance.copies("multiAz"))


@pricer("aws:acm/certificate:Certificate")
def price_certificate(certificate: Reader) -> Parts:
    """Yield a certificate of a private authority; public ones are free."""
    if certificate.has("certificateAuthorityArn"):
        yield certificate.of("certificate").used("acm_pca:certificate", "monthly_requests")
