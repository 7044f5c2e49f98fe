# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The tests' own promise: nothing stays behind, however a case ends."""
import os
import signal
import subprocess
import sys
import time

from world import World, expect, sweep_dead_worlds, wait_until


def waits():
    """No case by itself: what the others end."""
    with World() as w:
        print("ready", flush=True)
        time.sleep(60)


def _start():
    runner = subprocess.Popen([sys.executable, os.path.join(os.path.dirname(__file__), "run.py"), "harness.waits"],
                              stdout=subprocess.PIPE, text=True)
    expect(runner.stdout.readline() == "ready\n", "the case that waits does not start")
    namespaces = lambda: [name for name in os.listdir("/run/netns") if name.startswith(f"uroce{runner.pid}")]
    expect(len(namespaces()) == 2, f"not two namespaces: {namespaces()}")
    return runner, namespaces


def an_ended_case_takes_its_world_down():
    runner, namespaces = _start()
    runner.terminate()
    expect(runner.wait(30) == 143, "it ended otherwise")
    expect(not namespaces(), f"left behind: {namespaces()}")


def a_killed_case_is_swept_up():
    runner, namespaces = _start()
    sweep_dead_worlds()
    expect(len(namespaces()) == 2, "a living world was swept away")
    runner.send_signal(signal.SIGKILL)
    runner.wait()
    inside = [pid for name in namespaces() for pid in subprocess.check_output(["ip", "netns", "pids", name], text=True).split()]
    expect(inside, "no daemon was left: this shows nothing")
    sweep_dead_worlds()
    expect(not namespaces(), f"left behind: {namespaces()}")
    wait_until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in inside), "its daemons are gone")
