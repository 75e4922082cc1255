#!/bin/sh
# ansible-runner 2.4.3 with ansible-core 2.19.14: `ansible-runner process` ends with 0 whatever the run did.
#
# Expected: the last command of `transmit | worker | process` fails if the run failed, or if the stream ended early.
# Seen on 2026-11-28:
#   failed run: worker exits with 2, process exits with 0, artifacts/status is "failed"
#   cut stream: process exits with 0, there is no artifacts/status
#
# Exits with 0 while this is so.
set -eu

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet ansible-runner==2.4.3 ansible-core==2.19.14
PATH="$folder/venv/bin:$PATH"
export PATH

mkdir -p "$folder/data/project" "$folder/data/inventory"
echo 'localhost ansible_connection=local' > "$folder/data/inventory/hosts"
cat > "$folder/data/project/fail.yml" << 'EOF'
- hosts: localhost
  gather_facts: false
  tasks:
    - ansible.builtin.fail: {msg: out of cards}
EOF

ansible-runner transmit "$folder/data" -p fail.yml > "$folder/sent"
worker=0
ansible-runner worker < "$folder/sent" > "$folder/stream" || worker=$?
head -n 5 "$folder/stream" > "$folder/cut"

failed=0
ansible-runner process "$folder/failed" < "$folder/stream" > "$folder/output" || failed=$?
status=$(cat "$folder/failed/artifacts/status")
cut=0
ansible-runner process "$folder/short" < "$folder/cut" > "$folder/output" || cut=$?
cut_status=none
[ ! -e "$folder/short/artifacts/status" ] || cut_status=$(cat "$folder/short/artifacts/status")

echo "failed run: worker exits with $worker, process exits with $failed, status is $status"
echo "cut stream: process exits with $cut, status is $cut_status"
[ "$worker $failed $status $cut $cut_status" = "2 0 failed 0 none" ]
