"""Let ``python -m gpufleet`` be the command line."""

from gpufleet.cli import main

main()
