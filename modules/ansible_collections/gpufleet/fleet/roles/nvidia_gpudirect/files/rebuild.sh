#!/bin/sh
# Build the modules of GDS and gdrcopy again if the driver changed: dkms builds them for a new kernel, but not for a new
# driver, whose symbols they use. Usage: rebuild.sh DRIVER_VERSION STAMP_FILE
set -eu
[ "$(cat "$2" 2>/dev/null)" = "$1" ] && exit 0
for module in nvidia-fs gdrdrv; do
  version=$(dkms status -m "$module" | sed -n "s|^${module}[/, ]*\([^,: ]*\).*|\1|p" | head -n 1)
  [ -n "$version" ] || continue
  dkms build -m "$module" -v "$version" --force
  dkms install -m "$module" -v "$version" --force
  echo "rebuilt=$module $version"
done
mkdir -p "$(dirname "$2")"
echo "$1" >"$2"
