"""BMCs for tests: OpenStack's Redfish emulator, OpenIPMI's simulator, and a server of hostile answers."""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
import ipaddress
import json
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import bcrypt
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

USER, PASSWORD = "operator", "secret-of-bmc"  # IPMI: at most 16 and 20 characters
SYSTEM = "27946b59-9e44-4fa7-8e91-f3527a1ef094"
START_SECONDS = 60
# The emulator's delays of up to 11 seconds are shortened; everything else is its own.
EMULATOR = "import random; random.randint = lambda *_: 0; from sushy_tools.emulator.main import main; main()"


def find_free_port(kind=socket.SOCK_STREAM):
    with socket.socket(socket.AF_INET, kind) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def write_certificate(folder):
    """Write a self-signed certificate for 127.0.0.1; return its file, its key's and its sha256."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "bmc")])
    now = dt.datetime.now(dt.UTC)
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=30))
        .add_extension(address, critical=False)
        .sign(key, hashes.SHA256())
    )
    pem, key_file = folder / "bmc.pem", folder / "bmc.key"
    pem.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    key_file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return pem, key_file, hashlib.sha256(certificate.public_bytes(serialization.Encoding.DER)).hexdigest()


@contextlib.contextmanager
def run_process(argv, folder, is_ready):
    """Run a server until the block ends; ``is_ready`` is tried until it is true."""
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(argv, cwd=folder, stdout=output, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + START_SECONDS
        while not is_ready():
            assert process.poll() is None, (folder / "output").read_text()
            assert time.monotonic() < deadline, (folder / "output").read_text()
            time.sleep(0.1)
        yield process
    finally:
        process.kill()
        process.wait(30)


@contextlib.contextmanager
def run_redfish_emulator(folder, **settings):
    """Run sushy-emulator with one machine that is off; yield its declaration."""
    folder.mkdir(parents=True, exist_ok=True)
    pem, key, _ = write_certificate(folder)
    port = find_free_port()
    password = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()
    (folder / "users").write_text(f"{USER}:{password}\n")
    system = {"uuid": SYSTEM, "name": "gpu01", "power_state": "Off", "external_notifier": False}
    values = {
        "SUSHY_EMULATOR_LISTEN_IP": "127.0.0.1",
        "SUSHY_EMULATOR_LISTEN_PORT": port,
        "SUSHY_EMULATOR_SSL_CERT": str(pem),
        "SUSHY_EMULATOR_SSL_KEY": str(key),
        "SUSHY_EMULATOR_AUTH_FILE": str(folder / "users"),
        "SUSHY_EMULATOR_STATE_DIR": str(folder),
        "SUSHY_EMULATOR_FAKE_DRIVER": True,
        "SUSHY_EMULATOR_FAKE_SYSTEMS": [{**system, "nics": [], **settings}],
    }
    (folder / "emulator.py").write_text("".join(f"{name} = {value!r}\n" for name, value in values.items()))
    argv = [sys.executable, "-c", EMULATOR, "--config", str(folder / "emulator.py"), "--fake"]
    with run_process(argv, folder, lambda: "Running on" in (folder / "output").read_text()):
        yield {"protocol": "redfish", "address": "127.0.0.1", "port": port, "ca_file": str(pem)}


# What ipmi_sim runs for power: ipmi_lan(5), chassis_control. `deaf` in the folder is a system that ignores a shutdown.
CHASSIS = """#!/bin/sh
cd "$(dirname "$0")" || exit 1
echo "$@" >>orders
case "$1 $2" in
"get power") echo "power:$(cat power)" ;;
"set power") echo "$3" >power ;;
"set shutdown") [ -e deaf ] || echo 0 >power ;;
"get "*) echo "$2:0" ;;
esac
"""


def build_fru(manufacturer, product, serial, chassis=None):
    """Return a FRU with a product area, and one of a chassis with a serial.

    IPMI Platform Management FRU Information Storage Definition, sections 8, 10 and 12.
    """

    def text(value):
        return bytes([0xC0 | len(value)]) + value.encode()

    fields = (manufacturer, product, "part-1", "v1", serial)
    body = b"\x01\x00\x19" + b"".join(map(text, fields)) + b"\xc0\xc0\xc1"  # no asset tag, no file id
    body += bytes(-(len(body) + 1) % 8)
    area = bytearray(body + b"\x00")
    area[1] = len(area) // 8
    area[-1] = -sum(area) % 256
    chassis_area = bytearray()
    if chassis:
        chassis_area += (
            b"\x01\x00\x17" + text("part-2") + text(chassis) + b"\xc1"
        )  # 0x17: a rack mount chassis
        chassis_area += bytes(-(len(chassis_area) + 1) % 8 + 1)
        chassis_area[1] = len(chassis_area) // 8
        chassis_area[-1] = -sum(chassis_area) % 256
    header = bytearray([1, 0, bool(chassis), 0, 1 + len(chassis_area) // 8, 0, 0, 0])
    header[-1] = -sum(header) % 256
    return bytes(header + chassis_area + area)


@contextlib.contextmanager
def run_ipmi_simulator(folder, fru=None):
    """Run ipmi_sim with one machine that is off; yield its declaration."""
    (folder / "state").mkdir(parents=True)
    port = find_free_port(socket.SOCK_DGRAM)
    (folder / "chassis").write_text(CHASSIS)
    (folder / "chassis").chmod(0o755)
    (folder / "power").write_text("0\n")
    (folder / "lan.conf").write_text(
        f"""name "bmc"
set_working_mc 0x20
  startlan 1
    addr 127.0.0.1 {port}
    priv_limit admin
    allowed_auths_admin md5
    guid a123456789abcdefa123456789abcdef
  endlan
  chassis_control "{folder}/chassis"
  user 2 true "{USER}" "{PASSWORD}" admin 10 md5
"""
    )
    data = " ".join(f"0x{byte:02x}" for byte in fru or b"")
    (folder / "commands").write_text(
        "mc_setbmc 0x20\nmc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02 persist_sdr\n"
        + (f"mc_add_fru_data 0x20 0 {len(fru)} data {data}\n" if fru else "")
        + "mc_enable 0x20\n"
    )
    argv = [
        shutil.which("ipmi_sim"),
        "-n",
        "-c",
        str(folder / "lan.conf"),
        "-f",
        str(folder / "commands"),
        "-s",
        str(folder / "state"),
    ]
    with run_process(argv, folder, lambda: is_udp_port_used(port)):
        yield {"protocol": "ipmi", "address": "127.0.0.1", "port": port}


def is_udp_port_used(port):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
        return False


def run_ipmitool(declaration, *arguments):
    """Return what ipmitool, a client that is not ours, prints about a simulated machine."""
    argv = [
        "ipmitool",
        "-I",
        "lanplus",
        "-C",
        "3",
        "-H",
        declaration["address"],
        "-p",
        str(declaration["port"]),
    ]
    result = subprocess.run(
        [*argv, "-U", USER, "-P", PASSWORD, *arguments], capture_output=True, text=True, check=True
    )
    return result.stdout


class ScriptedBmc:
    """A Redfish service whose answers a test writes: ``answers`` has a value, a status or bytes for each path.

    The resources have the keys of DMTF's schemas (ServiceRoot, ComputerSystemCollection, ComputerSystem).
    """

    def __init__(self, folder: Path):
        folder.mkdir(parents=True, exist_ok=True)
        pem, key, _ = write_certificate(folder)
        self.requests: list[tuple[str, str, dict]] = []
        self.system = {
            "@odata.id": "/redfish/v1/Systems/1",
            "Id": "1",
            "Name": "node",
            "PowerState": "On",
            "Manufacturer": "Example",
            "Model": "X1",
            "SerialNumber": "SN-0001",
            "Actions": {
                "#ComputerSystem.Reset": {
                    "target": "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset",
                    "ResetType@Redfish.AllowableValues": ["On", "ForceOff", "GracefulShutdown"],
                }
            },
        }
        self.answers = {
            "/redfish/v1/": {
                "@odata.id": "/redfish/v1/",
                "Id": "RootService",
                "Name": "Root Service",
                "RedfishVersion": "1.6.0",
                "Systems": {"@odata.id": "/redfish/v1/Systems"},
            },
            "/redfish/v1/Systems": {
                "@odata.id": "/redfish/v1/Systems",
                "Name": "Systems",
                "Members": [{"@odata.id": "/redfish/v1/Systems/1"}],
            },
            "/redfish/v1/Systems/1": self.system,
        }
        self.headers: dict[str, str] = {}
        self.statuses: dict[str, int] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pem, key)
        self._server.socket = context.wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )
        self.port = self._server.server_address[1]
        self.declaration = {
            "protocol": "redfish",
            "address": "127.0.0.1",
            "port": self.port,
            "ca_file": str(pem),
        }

    def _handler(self):
        bmc = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_arguments):
                pass

            def answer(self):
                size = int(self.headers.get("Content-Length") or 0)
                bmc.requests.append((self.command, self.path, json.loads(self.rfile.read(size) or b"{}")))
                if bmc.answer_unusually(self):
                    return
                content = bmc.answers.get(self.path, {})
                body = content if isinstance(content, bytes) else json.dumps(content).encode()
                self.send_response(bmc.statuses.get(self.path, 200))
                for name, value in bmc.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                with contextlib.suppress(OSError):  # the client may have seen enough
                    self.wfile.write(body)

            do_GET = do_POST = do_DELETE = answer  # noqa: N815 - the names that http.server calls

        return Handler

    def answer_unusually(self, handler):
        """Answer a request in another way than from ``answers``; return whether it did."""
        return False

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_error):
        self._server.shutdown()
        self._server.server_close()


class SwitchableBmc(ScriptedBmc):
    """A Redfish service of a machine that is switched, and that fails as public reports describe.

    ``readings`` are what the next readings of the system are in place of an answer: a status, "close" (the connection
    ends), or bytes. ``transition`` are the power states that an order is followed by. ``order_answer`` is a status or
    "close": the order is carried out before, unless ``is_deaf``. What real services refuse is refused: an order that
    the system does not offer, On for a machine that is on (iDRAC, PSU501), a shutdown of one that is off (iLO).
    """

    PATH = "/redfish/v1/Systems/1"

    def __init__(self, folder: Path, power="Off"):
        super().__init__(folder)
        self.targets = {"On": "On", "ForceOff": "Off", "GracefulShutdown": "Off", "ForceRestart": "On"}
        self.system["PowerState"] = power
        self.action = self.system["Actions"]["#ComputerSystem.Reset"]
        self.action["ResetType@Redfish.AllowableValues"] = list(self.targets)
        self.readings, self.transition, self.later_readings = [], [], []
        self.order_answer, self.is_deaf, self.refusals = 204, False, []

    @property
    def orders(self):
        return [body.get("ResetType") for method, path, body in self.requests if path.endswith(".Reset")]

    def answer_unusually(self, handler):
        if handler.path == self.PATH and handler.command == "GET":
            return self.answer_reading(handler)
        if handler.path.endswith("ComputerSystem.Reset"):
            self.answer_order(handler, self.orders[-1])
            return True
        return False

    def answer_reading(self, handler):
        if not self.readings:
            if self.transition:
                self.system["PowerState"] = self.transition.pop(0)
            return False
        self.send(handler, self.readings.pop(0))
        return True

    def answer_order(self, handler, order):
        state = self.system["PowerState"]
        if self.refusals:
            status, message = self.refusals.pop(0)
            self.send(handler, status, message)
        elif order not in self.action["ResetType@Redfish.AllowableValues"]:
            self.send(handler, 400, {"MessageId": "Base.1.8.ActionParameterNotSupported"})
        elif order == "On" == state:
            self.send(
                handler, 409, {"MessageId": "IDRAC.1.6.PSU501", "Message": "Server is already powered ON."}
            )
        elif order != "On" and state == "Off":
            message = {
                "MessageID": "iLO.0.10.InvalidOperationForSystemState",
                "MessageArgs": ["Power is off"],
            }
            self.send(handler, 400, message)
        else:
            if not self.is_deaf:
                self.system["PowerState"] = self.targets[order]
                self.readings = list(self.later_readings)
            self.send(handler, self.order_answer)

    def send(self, handler, answer, message=None):
        if answer == "close":
            handler.close_connection = True
            handler.connection.close()
            return
        body = answer if isinstance(answer, bytes) else b""
        if message:
            body = json.dumps(
                {"error": {"code": "GeneralError", "@Message.ExtendedInfo": [message]}}
            ).encode()
        handler.send_response(200 if isinstance(answer, bytes) else answer)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        with contextlib.suppress(OSError):
            handler.wfile.write(body)
