#!/bin/sh
# What the engine is here, as name=value lines. Changes nothing.
# Usage: look.sh ENGINE [ROOTLESS_USER…]
set -u
engine=$1
shift
say() { printf '%s=%s\n' "$1" "$2"; }

if ! command -v "$engine" > /dev/null; then
  say installed no
  exit 0
fi
say installed yes
# `podman version 4.3.1`; `Docker version 20.10.24+dfsg1, build 297e128`
say version "$("$engine" --version 2> /dev/null | sed -n 's/^[A-Za-z]* version \([0-9][0-9.]*\).*/\1/p')"
if [ "$engine" = docker ]; then
  running=$(systemctl is-active docker.service 2> /dev/null)
  say running "$running"
  if [ "$running" != active ]; then
    message=$(journalctl --unit docker.service --boot --lines 60 --output cat 2> /dev/null |
      sed -n 's/^.*failed to start daemon: //p' | tail -n 1 | cut -c 1-200)
    say message "$message"
  fi
else
  message=$(podman info --format '{{.Store.GraphDriverName}} {{.Store.GraphRoot}}' 2>&1 | tail -n 1 | cut -c 1-200)
  say store "$message"
fi
for user in "$@"; do
  if ! id -u "$user" > /dev/null 2>&1; then
    say "rootless_$user" "the user does not exist"
  elif ! grep -q "^$user:" /etc/subuid || ! grep -q "^$user:" /etc/subgid; then
    say "rootless_$user" "no range in /etc/subuid and /etc/subgid: give first_id"
  else
    say "rootless_$user" ready
  fi
done
