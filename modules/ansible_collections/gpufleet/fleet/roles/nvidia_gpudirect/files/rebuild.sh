#!/bin/sh
# Build the modules of GDS and gdrcopy that are older than the driver's module: dkms builds them for a new kernel, but
# not for a new driver, whose symbols they use. A module's change time is when it was written on this host.
set -eu
written() { stat -L -c %Z "$1" 2>/dev/null || echo 0; }
driver=$(modinfo -n nvidia 2>/dev/null || modinfo -n nvidia-current 2>/dev/null) || exit 0 # no driver to build against
for module in nvidia-fs gdrdrv; do
  version=$(dkms status -m "$module" | sed -n "s|^${module}[/, ]*\([^,: ]*\).*|\1|p" | head -n 1)
  [ -n "$version" ] || continue
  built=$(modinfo -n "$module" 2>/dev/null || true)
  [ "$(written "$built")" -lt "$(written "$driver")" ] || continue
  dkms build -m "$module" -v "$version" --force
  dkms install -m "$module" -v "$version" --force
  echo "rebuilt=$module $version"
done
