#!/bin/sh
# What the vendor's own checks report, as name=value lines: gdscheck -p and gdrcopy_sanity. The verdict of gdscheck is
# its last line; it exits with status 0 also if it cannot reach nvidia-fs.
line() { printf '%s\n' "$1" | sed 's/^ *//' | grep -v '^$' | "$2" -n 1; }
for program in /usr/local/cuda*/gds/tools/gdscheck; do
  [ -x "$program" ] || continue
  text=$("$program" -p 2>&1)
  status=$?
  case $status:$text in
    0:*"Platform verification succeeded"*) ;;
    *) echo "gds=gdscheck -p, status $status: $(line "$text" tail)" ;;
  esac
  break
done
if command -v gdrcopy_sanity >/dev/null; then
  text=$(gdrcopy_sanity 2>&1) || echo "gdrcopy=gdrcopy_sanity, status $?: $(line "$text" head)"
fi
