# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""As a user installs it, and as a machine without the build tree sees it."""
import os
import tempfile

import world
from world import BUILD, World, expect, sh

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")


def installed():
    """`cmake --install` into a prefix of its own: the command finds its parts, the man pages are there."""
    with tempfile.TemporaryDirectory() as directory:
        sh("cmake", "--install", BUILD, "--prefix", directory)
        found = {}
        for folder, _, names in os.walk(directory):
            for name in names:
                found[name] = os.path.join(folder, name)
        for name in ("uroce", "uroced", "liburoce-preload.so", "liburoce-rdmav34.so", "uroce.1", "uroced.8", "uroce-provider.7"):
            expect(name in found, f"{name} is not installed: {sorted(found)}")
        with World(names=("a",)) as w:
            w.a.run(found["uroce"], "run", "--", "rdma", "link", "add", "ur0", "type", "uroce", "netdev", "lo", uroce=False).ok()
            w.a.run(found["uroce"], "run", "--", "ibv_devices", uroce=False).ok().has("ur0")
            expect(BUILD not in w.a.run(found["uroce"], "env", uroce=False).ok().out, "the installed command uses the build tree")
        for page in ("uroce.1", "uroced.8", "uroce-provider.7"):
            out = sh("sh", "-c", f"man --warnings -E UTF-8 -l -Tutf8 {found[page]} 2>&1 >/dev/null")
            expect(not out, out)


def quickstart():
    out = sh(os.path.join(TOP, "tools/quickstart"), "--no-build", timeout=120, env={**os.environ, "UROCE_QUICKSTART_BUILD": BUILD})
    expect("It works" in out and out.count("iters in") == 2, out)


def quickstart_without_root():
    """The half that needs no privilege, as another user, in a namespace where only lo is there."""
    with World(names=("a",)) as w:
        answer = w.a.run(os.path.join(TOP, "tools/quickstart"), "--no-build", uroce=False, user=65534,
                         environment={"HOME": "/tmp", "UROCE_QUICKSTART_BUILD": BUILD}, timeout=120).ok()
        answer.has("It works", "iters in", r"needs root")
        w.a.run(world.UROCE, "stop", uroce=False, user=65534)


def run_and_env():
    with World(names=("a",)) as w:
        w.a.add_device("lo")
        w.a.run("sh", "-c", 'eval "$(%s env)"; ibv_devices' % world.UROCE, uroce=False).ok().has("ur0")
        expect(w.a.run("sh", "-c", "exit 7").code == 7, "uroce run changed the exit code")
        w.a.run("bash", "-c", "cd /sys/class/infiniband && ls").ok().has("^ur0$")
        expect(w.a.run("/nosuchprogram").code == 127, "a program that is not there has another exit code than 127")


def doctor_and_status():
    with World(names=("a",)) as w:
        w.a.add_device("lo")
        facts = w.a.run(world.UROCE, "doctor", "--json", uroce=False).ok().json()
        expect(facts, "doctor has nothing to say")
        status = w.a.status()
        expect(status["devices"][0]["name"] == "ur0" and status["running"], f"{status}")
        w.a.run(world.UROCE, "link", "set", "ur0", "transport", "udp", uroce=False).ok()
        expect(w.a.status()["devices"][0]["transport"] == "udp", "the transport was not set")
        expect(w.a.run(world.UROCE, "link", "set", "ur0", "transport", "pigeon", uroce=False).code != 0, "pigeon was taken")
        w.a.run(world.UROCE, "stop", uroce=False).ok()
        expect(not w.a.daemons(), "the daemon is still there after stop")
        answer = w.a.run(world.UROCE, "status", uroce=False)
        expect(answer.out.strip(), "status without a daemon says nothing")
