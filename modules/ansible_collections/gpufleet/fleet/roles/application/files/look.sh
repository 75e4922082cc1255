#!/bin/sh
# What runs applications here, and which are installed, as name=value lines. Changes nothing.
# Usage: look.sh
set -u

for folder in /usr/lib/systemd/system-generators /lib/systemd/system-generators; do
  if [ -x "$folder/podman-system-generator" ]; then
    echo "quadlet=$folder/podman-system-generator"
    break
  fi
done
if docker compose version > /dev/null 2>&1; then
  echo "compose=docker"
fi
for file in /etc/containers/systemd/gpufleet/* /etc/gpufleet/compose/*/compose.yaml; do
  [ -f "$file" ] && echo "file=$file"
done
# Units that releases before container files rendered.
for file in /etc/containers/systemd/gpufleet-*.container /etc/systemd/system/gpufleet-*.service; do
  [ -f "$file" ] && grep -q "from the node's template" "$file" && echo "file=$file"
done
for secret in /etc/gpufleet/secrets/*; do
  [ -f "$secret" ] && echo "secret=$secret"
done
if command -v podman > /dev/null; then
  podman secret ls --format '{{.Name}}' 2> /dev/null | sed 's/^/secret=podman secret /'
fi
exit 0
