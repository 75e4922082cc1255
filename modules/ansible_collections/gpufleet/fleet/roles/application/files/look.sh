#!/bin/sh
# What runs here already, as name=value lines. Changes nothing.
# Usage: look.sh ENGINE
set -u
engine=$1

if command -v "$engine" > /dev/null; then
  echo "installed=yes"
  # `podman version 4.3.1`; `Docker version 20.10.24+dfsg1, build 297e128`
  echo "version=$("$engine" --version 2> /dev/null | sed -n 's/^[A-Za-z]* version \([0-9][0-9.]*\).*/\1/p')"
fi
for folder in /usr/lib/systemd/system-generators /lib/systemd/system-generators; do
  if [ -x "$folder/podman-system-generator" ]; then
    echo "generator=$folder/podman-system-generator"
    break
  fi
done
for unit in /etc/containers/systemd/gpufleet-*.container /etc/systemd/system/gpufleet-*.service; do
  [ -f "$unit" ] && grep -q "from the node's template" "$unit" && echo "unit=$unit"
done
for secret in /etc/gpufleet/secrets/*; do
  [ -f "$secret" ] && echo "secret=$secret"
done
if [ "$engine" = podman ] && command -v podman > /dev/null; then
  podman secret ls --format '{{.Name}}' 2> /dev/null | sed 's/^/secret=podman secret /'
fi
exit 0
