#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Runs inside the guest: guest.py [CASE...]. All cases of rxe.py in one world, or those named; one line each, and why one failed."""
import signal
import sys
import time
import traceback

sys.dont_write_bytecode = True

import rxe  # noqa: E402
from interop_world import Accounts, Interop, expect  # noqa: E402


def one(w, case):
    accounts = Accounts(w)
    began = time.monotonic()
    problem = None
    try:
        case(w)
        expect(not [p for p in w.processes if p.running()], "a program still runs")
    except Exception:
        problem = traceback.format_exc()
    for process in w.processes:
        if process.running():
            process.kill()
            process.popen.wait()
    w.processes.clear()
    accounts.settle()
    bad_icrc = accounts.ur.get("bad_icrc", 0)
    checks = {"bad ICRCs that uroce saw": bad_icrc if accounts.ur else "not shown", "that rxe saw": accounts.bad_icrc_of_rxe, "packets that rxe refused": accounts.refused_by_rxe,
              "which may have come late": accounts.may_come_late}
    refused = accounts.ur and accounts.refused_by_rxe > accounts.may_come_late and case not in rxe.LEAVES_A_QP_IN_ERROR
    bad_icrc += accounts.bad_icrc_of_rxe - rxe.BAD_ON_PURPOSE.get(case, 0)
    if problem is None and (bad_icrc or refused):
        problem = "one side refused packets of the other"
    print(f"{'FAIL' if problem else 'PASS'} {case.__name__} {time.monotonic() - began:.1f} s "
          + ", ".join(f"{k} {v}" for k, v in checks.items()), flush=True)
    interesting = {k: v for k, v in accounts.rxe.items() if v}, {k: v for k, v in accounts.ur.items() if v}
    if problem:
        print("    " + problem.rstrip().replace("\n", "\n    "), flush=True)
    print(f"    rxe {interesting[0]}\n    ur {interesting[1]}", flush=True)
    return problem is None


def main():
    names = sys.argv[1:]
    cases = [case for case in rxe.CASES if not names or case.__name__ in names]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with Interop() as w:
        passed = [one(w, case) for case in cases]
    print(f"{sum(passed)} passed, {len(passed) - sum(passed)} failed", flush=True)
    return 0 if passed and all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
