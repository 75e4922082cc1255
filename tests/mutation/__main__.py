"""Mutate a seeded sample of every room's code and count what the tests notice.

    python tests/mutation --room cost --count 15 --seed 1

Writes the table to standard output, and survivors with their change to .gpufleet/mutation/.
"""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import equivalents
import results
from rooms import ROOT, Room, rooms
from sampling import draw, find_mutants
from sandbox import sandbox
from selection import Coverage, Selection, measure
from trials import Server, Trials


def main() -> int:
    options = _options()
    signal.signal(
        signal.SIGTERM, signal.default_int_handler
    )  # like Ctrl-C: the table of what was tried, and gone
    known = rooms()
    unknown = [name for name in options.room if name not in known]
    if unknown:
        print(f"mutants: room {unknown[0]} not found\nhint: one of {', '.join(known)}", file=sys.stderr)
        return 2
    run = results.Run(options.seed, options.count)
    with sandbox() as copy:
        server = Server(copy)
        try:
            for name in options.room or known:
                coverage = _coverage(known[name], copy, server)
                selection = Selection(coverage, known[name], options.budget)
                _try_room(known[name], Trials(copy, server, selection), run)
                run.write()
        except KeyboardInterrupt:
            print("mutants: interrupted; the table holds what was tried", file=sys.stderr)
        finally:
            server.close()
    print(run.table())
    print(f"survivors: {run.write().relative_to(ROOT)}")
    return 0 if run.is_good_enough() else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="mutants", description=__doc__.splitlines()[0])
    parser.add_argument("--room", nargs="*", default=[], help="rooms to mutate (all)")
    parser.add_argument("--count", type=int, default=15, help="mutants of each room (15)")
    parser.add_argument("--seed", default="1", help="what the sample is drawn with (1)")
    parser.add_argument("--budget", type=float, default=12, help="seconds of tests for one mutant (12)")
    return parser.parse_args()


def _coverage(room: Room, copy, server) -> Coverage:
    total = Coverage()
    for file in room.tests:
        total.add(measure(file, copy, server))
    return total


def _try_room(room, trials: Trials, run: results.Run) -> None:
    mutants = [mutant for file in room.files for mutant in find_mutants(file, (ROOT / file).read_text())]
    run.open_room(room.name, mutants, trials.selection)
    tried = 0
    for mutant in draw(mutants, f"{run.seed}/{room.name}", ROOT):
        if tried == run.count:
            break
        if not trials.selection.is_run(mutant):
            run.skip(room.name, "not run")
        elif reason := equivalents.reason(mutant):
            run.leave_out(room.name, mutant, reason)
        else:
            run.add(room.name, trials.run(mutant))
            tried += 1


if __name__ == "__main__":
    sys.exit(main())
