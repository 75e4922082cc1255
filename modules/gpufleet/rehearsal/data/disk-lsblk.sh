#!/bin/sh
# FAKE lsblk --json: shows the rehearsed host's file-backed drive, never the controller's.
exec cat /etc/gpufleet-rehearsal/disks/lsblk.json
