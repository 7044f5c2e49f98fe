#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Runs inside the guest: module_guest.py [CASE...]. Stock programs over the kernel module, without the stand-in; deaths, removals,
other credentials and wrong input. One line each, and why one failed."""
import signal
import sys
import time
import traceback

sys.dont_write_bytecode = True

import module_cases  # noqa: E402
from module_world import World  # noqa: E402


def one(w, case):
    began = time.monotonic()
    problem = None
    for step in (lambda: case(w), w.settle):
        try:
            step()
        except Exception:
            problem = (problem or "") + traceback.format_exc()
    print(f"{'FAIL' if problem else 'PASS'} {case.__name__} {time.monotonic() - began:.1f} s", flush=True)
    if problem:
        print("    " + problem.rstrip().replace("\n", "\n    "), flush=True)
        for host in w.hosts:
            print(f"    uroced of {host.name}: {host.daemon.output()[-600:]}", flush=True)
    return problem is None


def main():
    names = sys.argv[1:]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    cases = [case for case in module_cases.CASES if not names or case.__name__ in names]
    cases += [case for case in module_cases.BY_HAND if case.__name__ in names]
    with World() as w:
        passed = [one(w, case) for case in cases]
    print(f"{sum(passed)} passed, {len(passed) - sum(passed)} failed", flush=True)
    return 0 if passed and all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
