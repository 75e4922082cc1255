#!/bin/sh
# sushy 5.14.0: an order whose answer is lost is sent again, also one that restarts a machine.
#
# Expected: `system.reset_system(ResetType.FORCE_RESTART)` sends one POST, or raises an error.
# Seen on 2026-11-28, with a service that carries an order out and closes the connection without an answer:
#   as sushy comes: 10 POST of ForceRestart
#   server_side_retries=0: 3 POST of ForceRestart
#   server_side_retries=1: 1 POST of ForceRestart
#
# Exits with 0 while this is so.
set -eu

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet sushy==5.14.0

cat > "$folder/show.py" << 'EOF'
import json, logging, sys, threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import sushy
from sushy import auth, connector
from sushy.resources.constants import ResetType

logging.disable(logging.CRITICAL)
SYSTEM = "/redfish/v1/Systems/1"
RESET = SYSTEM + "/Actions/ComputerSystem.Reset"
ANSWERS = {
    "/redfish/v1/": {"@odata.id": "/redfish/v1/", "Id": "RootService", "Name": "Root", "RedfishVersion": "1.6.0",
                     "Systems": {"@odata.id": "/redfish/v1/Systems"}},
    SYSTEM: {"@odata.id": SYSTEM, "Id": "1", "Name": "node", "PowerState": "On",
             "Actions": {"#ComputerSystem.Reset": {"target": RESET, "ResetType@Redfish.AllowableValues": ["ForceRestart"]}}},
}
orders = []


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps(ANSWERS.get(self.path, {})).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        orders.append(json.loads(self.rfile.read(int(self.headers["Content-Length"])))["ResetType"])
        self.close_connection = True
        self.connection.close()

    def log_message(self, *arguments):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
origin = f"http://127.0.0.1:{server.server_port}"
counts = []
for name, options in (("as sushy comes", {}), ("server_side_retries=0", {"server_side_retries": 0}),
                      ("server_side_retries=1", {"server_side_retries": 1})):
    orders.clear()
    if options:
        options = {"connector": connector.Connector(origin, server_side_retries_delay=0.01, **options)}
    root = sushy.Sushy(origin, auth=auth.BasicAuth("user", "word"), **options)
    try:
        root.get_system(SYSTEM).reset_system(ResetType.FORCE_RESTART)
    except sushy.exceptions.ConnectionError:
        pass
    print(f"{name}: {len(orders)} POST of {', '.join(sorted(set(orders)))}")
    counts.append(len(orders))
sys.exit(counts != [10, 3, 1])
EOF
"$folder/venv/bin/python" "$folder/show.py"
