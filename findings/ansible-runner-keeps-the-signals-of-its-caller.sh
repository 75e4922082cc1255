#!/bin/sh
# ansible-runner 2.4.3 with ansible-core 2.19.14: after `ansible_runner.run()` has returned, Ctrl-C and SIGTERM do nothing
# in the program that called it.
#
# Expected: the handlers that run() needs while Ansible runs are gone when it returns; or it sets none in a library call.
# Seen on 2026-11-28, with SIGINT and SIGTERM sent to the program after the run:
#   before the run: KeyboardInterrupt
#   after a run with a cancel_callback of the caller's: rc 0, KeyboardInterrupt
#   after the run: rc 0, SIGINT ignored, SIGTERM ignored
#
# Exits with 0 while this is so.
set -eu

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet ansible-runner==2.4.3 ansible-core==2.19.14
PATH="$folder/venv/bin:$PATH"
export PATH

mkdir -p "$folder/data/inventory"
echo "localhost ansible_connection=local ansible_python_interpreter=$folder/venv/bin/python" > "$folder/data/inventory/hosts"
cat > "$folder/program.py" << 'EOF'
import os
import signal
import sys
import time

import ansible_runner


def interrupt(number):
    """Return what a signal to this program does."""
    try:
        os.kill(os.getpid(), number)
        time.sleep(0.2)  # Python runs handlers between two instructions
    except KeyboardInterrupt:
        return "KeyboardInterrupt"
    return "ignored"


def ping(**options):
    call = {"host_pattern": "localhost", "module": "ansible.builtin.ping", "quiet": True}
    return ansible_runner.run(private_data_dir=sys.argv[1], **call, **options).rc


print(f"before the run: {interrupt(signal.SIGINT)}")
print(f"after a run with a cancel_callback of the caller's: rc {ping(cancel_callback=lambda: False)}, "
      f"{interrupt(signal.SIGINT)}")
print(f"after the run: rc {ping()}, SIGINT {interrupt(signal.SIGINT)}, SIGTERM {interrupt(signal.SIGTERM)}")
EOF
python "$folder/program.py" "$folder/data" > "$folder/seen"
cat "$folder/seen"
cat > "$folder/expected" << 'EOF'
before the run: KeyboardInterrupt
after a run with a cancel_callback of the caller's: rc 0, KeyboardInterrupt
after the run: rc 0, SIGINT ignored, SIGTERM ignored
EOF
cmp "$folder/seen" "$folder/expected"
