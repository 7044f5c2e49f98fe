#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Runs one case: run.py FILE.CASE. Exit 77: skipped, with the reason."""
import importlib
import os
import signal
import sys
import traceback

sys.dont_write_bytecode = True

from world import Skip, sweep_dead_worlds  # noqa: E402


def main():
    if os.geteuid() != 0:
        print("skipped: makes network namespaces, which needs root")
        return 77
    # Asked to end, a case takes its world down; killed, it cannot, and the next one does.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sweep_dead_worlds()
    file, _, case = sys.argv[1].partition(".")
    module = importlib.import_module(file)
    try:
        getattr(module, case)()
    except Skip as reason:
        print(f"skipped: {reason}")
        return 77
    except Exception:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
