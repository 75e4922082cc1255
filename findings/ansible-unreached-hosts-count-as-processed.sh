#!/bin/sh
# ansible-core 2.19.14: a rolling play that stops counts hosts as processed without a failure, on which it never ran.
#
# Expected: the recap tells hosts that a play left out from hosts that finished it.
# Seen on 2026-11-28, with serial: 2, max_fail_percentage: 0 and a failure on h1 (h2 was stopped with it, h3 and h4 are
# in the second batch, which never began):
#   h1 : ok=1 changed=0 unreachable=0 failed=1 skipped=0 rescued=0 ignored=0
#   h2 : ok=1 changed=0 unreachable=0 failed=0 skipped=1 rescued=0 ignored=0
#   h3 : ok=1 changed=0 unreachable=0 failed=0 skipped=0 rescued=0 ignored=0
#   h4 : ok=1 changed=0 unreachable=0 failed=0 skipped=0 rescued=0 ignored=0
# The statistics that callbacks get (v2_playbook_on_stats) hold the same numbers.
#
# Exits with 0 while this is so.
set -eu

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet ansible-core==2.19.14

cat > "$folder/roll.yml" << 'EOF'
- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.debug: {msg: before}
- hosts: all
  gather_facts: false
  serial: 2
  max_fail_percentage: 0
  tasks:
    - ansible.builtin.fail: {msg: not healthy}
      when: inventory_hostname == 'h1'
    - ansible.builtin.debug: {msg: the task that makes a host done}
EOF

ANSIBLE_NOCOLOR=1 "$folder/venv/bin/ansible-playbook" -i h1,h2,h3,h4 -c local "$folder/roll.yml" > "$folder/output" || true
recap=$(sed -n '/^PLAY RECAP/,$p' "$folder/output" | tr -s ' ' | grep '^h')
echo "$recap"
unharmed=$(echo "$recap" | grep -c 'unreachable=0 failed=0' || true)
made_done=$(grep -c 'the task that makes a host done' "$folder/output" || true)
[ "$unharmed $made_done" = "3 0" ]
