#!/bin/sh
# What the vendor's own checks say, as name=value lines: gdscheck -p and gdrcopy_sanity.
for program in /usr/local/cuda*/gds/tools/gdscheck; do
  [ -x "$program" ] || continue
  "$program" -p >/dev/null 2>&1 || echo "gds=$program -p ends with status $?"
  break
done
if command -v gdrcopy_sanity >/dev/null; then
  gdrcopy_sanity >/dev/null 2>&1 || echo "gdrcopy=gdrcopy_sanity ends with status $?"
fi
