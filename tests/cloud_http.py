"""Doubles of Azure Resource Manager and of Google's Compute Engine and Cloud Quotas APIs, on this machine.

The real SDKs talk to them over HTTP. Shapes of requests and answers:
- Azure: REST reference and Azure/azure-rest-api-specs, examples of Microsoft.Compute 2024-11-01 (Usage_List_MaximumSet,
  VirtualMachineScaleSetVM_List_WithResiliencyView) and Microsoft.Network; errors of ARM: api-version is required
  (MissingApiVersionParameter), a request without a token is AuthenticationFailed.
- Google: REST reference of compute/v1 (instances.aggregatedList, zoneOperations.get) and of cloudquotas/v1
  (projects.locations.services.quotaInfos.list); a request without a token is 401 UNAUTHENTICATED, `maxResults` is 0
  to 500.
"""

from __future__ import annotations

import json
import re
import ssl
import threading
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from urllib.parse import parse_qs, urlsplit

TOKEN = "a-token-of-the-tests"
JSON_1_1 = "application/x-amz-json-1.1"
UNSIGNED = b"<Response><Errors><Error><Code>MissingAuthenticationToken</Code></Error></Errors></Response>"


class CloudService:
    """Answers by pattern of the path; ``seen`` has every request that was allowed as (method, path, query).

    ``body`` is the newest request's body.
    """

    def __init__(self):
        self.routes = []
        self.seen = []
        self.body = None
        self.url = ""

    def route(self, method, pattern, answer):
        """Answer requests with a value, or with what a function of (match, query) returns."""
        self.routes.insert(0, (method, re.compile(pattern), answer))

    def respond(self, method, path, query, headers):
        refusal = self.refuse(query, headers)
        if refusal:
            return refusal
        self.seen.append((method, path, query))
        for allowed, pattern, answer in self.routes:
            match = pattern.fullmatch(path)
            if match and allowed == method:
                value = answer(match, query) if callable(answer) else answer
                return value if isinstance(value, tuple) else (200, value)
        return self.not_found(path)

    def deleted(self):
        """Return the paths of the deletions so far."""
        return [path for method, path, _ in self.seen if method == "DELETE"]


class AzureService(CloudService):
    """Azure Resource Manager. A list of more than ``page_size`` items comes in pages with ``nextLink``."""

    page_size = 2

    def refuse(self, query, headers):
        if not headers.get("Authorization", "").startswith("Bearer "):
            return self.error(
                401, "AuthenticationFailed", "Authentication failed. The 'Authorization' header is missing."
            )
        if "api-version" not in query:
            message = "The api-version query parameter (?api-version=) is required for all requests."
            return self.error(400, "MissingApiVersionParameter", message)
        return None

    def error(self, status, code, message):
        return status, {"error": {"code": code, "message": message}}

    def not_found(self, path):
        return self.error(404, "ResourceNotFound", f"The Resource '{path}' was not found.")

    def list_at(self, pattern, items):
        """Serve a listing in pages, with the links of Azure: absolute, with the version and a skip token."""

        def answer(match, query):
            start = int(query.get("$skiptoken", ["0"])[0])
            page = {"value": items[start : start + self.page_size]}
            if start + self.page_size < len(items):
                version = query["api-version"][0]
                page["nextLink"] = (
                    f"{self.url}{match.string}?api-version={version}&$skiptoken={start + self.page_size}"
                )
            return page

        self.route("GET", pattern, answer)


class GoogleService(CloudService):
    """Compute Engine and Cloud Quotas."""

    def refuse(self, query, headers):
        if headers.get("Authorization") != f"Bearer {TOKEN}":
            message = "Request is missing required authentication credential. Expected OAuth 2 access token."
            return self.error(401, message, "UNAUTHENTICATED")
        if int(query.get("maxResults", ["0"])[0]) > 500:
            return self.error(400, "Invalid value for field 'maxResults'", "INVALID_ARGUMENT")
        return None

    def error(self, status, message, reason=""):
        return status, {"error": {"code": status, "message": message, "status": reason}}

    def not_found(self, path):
        return self.error(404, f"The resource '{path}' was not found", "NOT_FOUND")

    def aggregate(self, collection, listing, by_scope):
        """Serve an aggregated listing: one scope a page, as many empty scopes as Google adds with a warning."""

        def answer(_match, query):
            scopes = list(by_scope)
            start = int(query.get("pageToken", ["0"])[0])
            wanted = query.get("filter", [""])[0]
            label = re.fullmatch(r"labels\.([a-z-]+):\*", wanted)
            assert label or not wanted, f"a filter that this double does not know: {wanted}"
            items = [
                item for item in by_scope[scopes[start]] if not label or label[1] in item.get("labels", {})
            ]
            empty = {"warning": {"code": "NO_RESULTS_ON_PAGE", "message": "There are no results for scope."}}
            page = {
                "kind": "compute#aggregatedList",
                "items": {scopes[start]: {listing: items} if items else empty},
            }
            return {**page, "nextPageToken": str(start + 1)} if start + 1 < len(scopes) else page

        self.route("GET", rf"/compute/v1/projects/[^/]+/aggregated/{collection}", answer)


class AwsGap:
    """AWS in front of moto: what moto does not have is answered from here, all else is moto's.

    Answers follow the API references of EC2 (DescribeCapacityReservations, DescribeCapacityBlockOfferings: XML) and of
    Service Quotas (GetServiceQuota: JSON 1.1). A request without a signature is MissingAuthenticationToken.
    """

    def __init__(self, moto):
        self.moto = moto
        self.url = ""
        self.actions = {}  # EC2's action -> a function of the form's fields, which returns XML
        self.quotas = {}  # code -> (name, limit)
        self.seen = []

    def answer(self, headers, body):
        from urllib.request import Request, urlopen

        target = headers.get("X-Amz-Target", "")
        if "Signature=" not in headers.get("Authorization", ""):
            return (
                403,
                "application/xml",
                UNSIGNED,
            )
        if target.startswith("ServiceQuotasV20190624."):
            return self.answer_quota(target, json.loads(body))
        fields = {name: values[0] for name, values in parse_qs(body.decode()).items()}
        self.seen.append(fields.get("Action", target))
        if fields.get("Action") in self.actions:
            return 200, "text/xml", self.actions[fields["Action"]](fields).encode()
        kept = {
            name: value for name, value in headers.items() if name.lower() not in ("host", "content-length")
        }
        try:
            with urlopen(Request(self.moto, body, kept)) as reply:
                return reply.status, reply.headers["Content-Type"], reply.read()
        except OSError as error:
            return error.code, error.headers["Content-Type"], error.read()

    def answer_quota(self, target, request):
        code = request["QuotaCode"]
        self.seen.append(target.partition(".")[2])
        if code not in self.quotas or request["ServiceCode"] != "ec2":
            return (
                400,
                "application/x-amz-json-1.1",
                b'{"__type": "NoSuchResourceException", "Message": "no such quota"}',
            )
        name, limit = self.quotas[code]
        quota = {
            "ServiceCode": "ec2",
            "QuotaCode": code,
            "QuotaName": name,
            "Value": limit,
            "Unit": "None",
            "Adjustable": True,
        }
        return 200, "application/x-amz-json-1.1", json.dumps({"Quota": quota}).encode()


def xml_list(action, name, items):
    """Return the XML of an EC2 listing."""
    body = "".join(f"<item>{item}</item>" for item in items)
    space = "http://ec2.amazonaws.com/doc/2016-11-15/"
    return f'<{action}Response xmlns="{space}"><requestId>r</requestId><{name}>{body}</{name}></{action}Response>'


@contextmanager
def serve_aws():
    """Serve moto with ``AwsGap`` in front of it."""
    with serve_moto() as moto:
        gap = AwsGap(moto)

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                status, kind, content = gap.answer(self.headers, body)
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *arguments):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        gap.url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield gap
        finally:
            server.shutdown()
            server.server_close()


def make_handler(service):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self):
            parts = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            service.body = json.loads(body) if body else None
            status, value = service.respond(self.command, parts.path, parse_qs(parts.query), self.headers)
            content = b"" if value is None else json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_DELETE = do_POST = do_PATCH = do_PUT = answer  # noqa: N815 - names of the standard library

        def log_message(self, *arguments):
            pass

    return Handler


@contextmanager
def serve(service, certificate=None):
    """Serve a double while the block runs; ``certificate`` is a PEM file with key and certificate."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), make_handler(service))
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    service.url = f"{'https' if certificate else 'http'}://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield service
    finally:
        server.shutdown()
        server.server_close()


def write_certificate(path):
    """Write key and certificate for 127.0.0.1: Azure's SDK sends a token over TLS only."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
    return path


class StaticAzureCredential:
    """A credential with a fixed token, in the protocol of azure-core."""

    def get_token(self, *_scopes, **_options):
        from azure.core.credentials import AccessToken

        return AccessToken(TOKEN, 4102444800)


def google_credentials():
    """Return credentials of google-auth with a fixed token."""
    from google.oauth2.credentials import Credentials

    return Credentials(token=TOKEN)


@contextmanager
def serve_moto():
    """Run moto's server on a free port of this machine; gives its URL."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        yield f"http://{host}:{port}"
    finally:
        server.stop()


def reset_moto(url):
    """Forget everything in moto's server."""
    from urllib.request import Request, urlopen

    urlopen(Request(f"{url}/moto-api/reset", method="POST")).read()


def aws_environment(url):
    """Return the variables that lead boto3 to moto's server."""
    return {
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": url,
    }
