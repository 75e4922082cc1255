"""A fake of the Cloud Billing Catalog: services.list and services.skus.list, with the refusals of the reference.

Reference of cloudbilling v1: ``pageSize`` is at most 5,000, an unknown service is NOT_FOUND, a page token that it
did not give is INVALID_ARGUMENT, a request without key and token is PERMISSION_DENIED.
"""

from __future__ import annotations

import json

from .conftest import FakeResponse

SERVICE_IDS = {
    "Compute Engine": "6F81-5844-456A",
    "Networking": "E505-1604-58F8",
    "Cloud Storage": "95FF-2EF5-5EA1",
    "Cloud Monitoring": "58CD-E7C3-72CA",
    "Cloud SQL": "9662-B51E-5089",
    "Kubernetes Engine": "CCD8-9BF1-090E",
    "Cloud Logging": "5490-F7B7-8DF6",
    "Cloud Run": "152E-C115-5142",
    "Artifact Registry": "149C-F9EC-3994",
    "Cloud Run Functions": "29E7-DA93-CA13",
    "Cloud Firestore": "EE2C-7FAC-5E08",
    "Cloud Key Management Service (KMS)": "EE2F-D110-890C",
    "Cloud Spanner": "CC63-0873-48FD",
    "Vertex AI": "C7E2-9256-1C43",
}  # fmt: skip - as public code quotes them; those of other services are ours


def find_service_id(name):
    """Return the id of a service: as public code quotes it, else one of ours."""
    return SERVICE_IDS.get(name) or f"AAAA-BBBB-{sum(map(ord, name)):04X}"


def refuse(status, code):
    return FakeResponse(json.dumps({"error": {"code": status, "status": code}}).encode(), status)


def build_catalog_api(skus_by_service, size=7):
    """Return what the server answers, ``size`` entries a page."""
    entries = {find_service_id(name): skus for name, skus in skus_by_service.items()}
    services = [
        {"name": f"services/{find_service_id(name)}", "serviceId": find_service_id(name), "displayName": name}
        for name in skus_by_service
    ]

    def serve(path, query):
        if int(query.get("pageSize", 5000)) > 5000:
            return refuse(400, "INVALID_ARGUMENT")
        _, services_part, *rest = path.split("/")
        if services_part != "services" or rest[1:] not in ([], ["skus"]):
            return refuse(404, "NOT_FOUND")
        if not rest:
            return send_page("services", services, query)
        if rest[0] not in entries:
            return refuse(404, "NOT_FOUND")
        assert query["currencyCode"] == "USD"
        return send_page("skus", entries[rest[0]], query)

    def send_page(key, found, query):
        token = query.get("pageToken", "0")
        if not token.isdecimal() or int(token) % size:
            return refuse(400, "INVALID_ARGUMENT")
        at = int(token)
        more = str(at + size) if at + size < len(found) else ""
        return {key: found[at : at + size], "nextPageToken": more}

    return serve
