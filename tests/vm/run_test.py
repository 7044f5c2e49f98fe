#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Tests of tests/vm/run itself, the ways in which it fails above all: run_test.py [--cache FOLDER] [CASE...]. Exit 77: no guest here."""
import argparse
import os
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.environ.setdefault("UROCE_BUILD", os.path.join(os.path.dirname(os.path.dirname(HERE)), "build/release"))
PATIENCE = 300  # of a slow machine; no measurement
STARTED = []

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "system"))

from world import Failure, expect  # noqa: E402


def wait_until(condition, what):
    end = time.monotonic() + PATIENCE
    while not condition():
        expect(time.monotonic() < end, f"it is not so that {what}")
        time.sleep(0.1)


def start(*command, options=(), environment=None):
    line = [sys.executable, os.path.join(HERE, "run"), "--cache", CACHE, *options, "--", *command]
    STARTED.append(subprocess.Popen(line, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                    env={**os.environ, **(environment or {})}))
    return STARTED[-1]


def end_of(process):
    """Exit code and output. Its own time limit is the smaller one."""
    out, _ = process.communicate(timeout=PATIENCE + 60)
    return process.returncode, out


def run(*command, options=(), **others):
    return end_of(start(*command, options=("--timeout", str(PATIENCE), *options), **others))


def folders_of(process):
    return [name for name in os.listdir(CACHE) if name.startswith(f"run-{process.pid}-")]


def machines_of(process):
    """Process ids of the qemu that has its console in the folder of `process`."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                line = file.read()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if b"qemu-system" in line.split(b"\0")[0] and f"/run-{process.pid}-".encode() in line:
            found.append(int(pid))
    return found


def interrupted(number):
    """A run that is sent a signal when its guest has begun."""
    process = start("sleep", "600")
    wait_until(lambda: machines_of(process) or process.poll() is not None, "the guest is started")
    expect(process.poll() is None, "run ended by itself")
    process.send_signal(number)
    code, _ = end_of(process)
    wait_until(lambda: not machines_of(process), "qemu has ended with run")
    return process, code


def exit_code_and_output_of_the_command():
    code, out = run("sh", "-c", "echo out; echo err >&2; exit 7")
    expect(code == 7, f"exit {code}\n{out}")
    expect("out\n" in out and "err\n" in out, out)


def without_qemu():
    code, out = run("true", environment={"PATH": "/nonexistent"})
    expect(code == 77 and out.startswith("skipped: "), f"exit {code}\n{out}")


def unknown_kernel():
    code, out = run("true", options=("--kernel", "5.0"))
    expect(code == 77 and "5.0" in out, f"exit {code}\n{out}")


def time_is_up():
    code, out = end_of(start("sleep", "600", options=("--timeout", "3")))
    expect(code == 124 and "not done after 3 s" in out, f"exit {code}\n{out}")


def kernel_crashes():
    code, out = run("sh", "-c", "echo c > /proc/sysrq-trigger; sleep 600")
    expect(code == 125 and "kernel died" in out and "sysrq" in out, f"exit {code}\n{out}")


def kernel_complains():
    """What the kernel's log would say of a warning; a stock kernel has none to order."""
    warning = "echo 'WARNING: CPU: 0 PID: 1 at nowhere.c:1 nothing+0x0/0x1' > /dev/kmsg"
    code, out = run("sh", "-c", warning)
    expect(code == 1 and "kernel complained" in out and "nowhere.c" in out, f"exit {code}\n{out}")


def asked_to_end():
    process, code = interrupted(signal.SIGTERM)
    expect(code == 128 + signal.SIGTERM, f"exit {code}")
    expect(not folders_of(process), "the folder is left")


def killed():
    process, _ = interrupted(signal.SIGKILL)
    expect(folders_of(process), "nothing is left for the next run to sweep")
    code, out = run("true")
    expect(code == 0, f"exit {code}\n{out}")
    expect(not folders_of(process), "the next run has not swept the folder")


CASES = [without_qemu, unknown_kernel, exit_code_and_output_of_the_command, time_is_up, kernel_crashes, kernel_complains, asked_to_end, killed]


def main():
    global CACHE
    parser = argparse.ArgumentParser(usage=__doc__.split(": ")[1].split(". ")[0])
    parser.add_argument("--cache", default=os.path.join(BUILD, "vm"))
    parser.add_argument("cases", nargs="*")
    options = parser.parse_args()
    CACHE = os.path.abspath(options.cache)
    code, out = run("true")
    if code == 77:
        print(out.strip())
        return 77
    failed = 0 if code == 0 else 1
    print(f"{'FAIL' if failed else 'PASS'} a command that succeeds{': ' + out if failed else ''}", flush=True)
    for case in CASES:
        if options.cases and case.__name__ not in options.cases:
            continue
        try:
            case()
            print(f"PASS {case.__name__}", flush=True)
        except (Failure, subprocess.TimeoutExpired) as problem:
            failed += 1
            for process in STARTED:
                process.terminate()  # takes its guest along
            print(f"FAIL {case.__name__}\n    " + str(problem).replace("\n", "\n    "), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
