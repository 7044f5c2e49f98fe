# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Programs that do odd things with descriptors, threads, memory and events."""
import os

from world import BUILD, World

PROGRAMS = os.path.join(BUILD, "tests/system/programs")


def alone(program, *arguments, environment=None):
    with World(names=("a",)) as w:
        w.a.add_device("lo")
        w.a.run(os.path.join(PROGRAMS, program), *arguments, timeout=120, environment=environment).ok().has("^done$")


def close_range(): alone("odd_descriptors", "close_range")
def fclose(): alone("odd_descriptors", "fclose")
def dup2(): alone("odd_descriptors", "dup2")
def vfork(): alone("odd_descriptors", "vfork")
def posix_spawn(): alone("odd_descriptors", "spawn")
def cancelled_pollers(): alone("odd_threads", "cancel")
def blocked_signals(): alone("odd_threads", "blocked_signals")
def own_fault_handler(): alone("odd_threads", "own_handler")
def many_threads(): alone("odd_threads", "many")
def thousand_completion_events(): alone("odd_many_events", "completions")
def thousand_async_events(): alone("odd_many_events", "async")


def under_address_sanitizer():
    alone("odd_asan", "many", environment={"ASAN_OPTIONS": "detect_leaks=1"})


def python_subprocess():
    with World(names=("a",)) as w:
        w.a.add_device("lo")
        w.a.run("/usr/bin/python3", "-c", """
import os, subprocess, tempfile
import pyverbs.device as d, pyverbs.pd as p
context = d.Context(name='ur0')
for i in range(20):
    subprocess.run(['true'], check=True, close_fds=True)
    with tempfile.NamedTemporaryFile() as f:
        f.write(b'x' * 1000); f.flush()
        assert os.stat(f.name).st_size == 1000
    pd = p.PD(context)
    pd.close()
pid = os.fork()
if pid == 0:
    try:
        p.PD(context)
    except Exception as e:
        os._exit(0)
    os._exit(1)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, 'a forked child was served'
p.PD(context).close()
print('done')
""").ok().has("^done$")


def validated(family):
    with World() as w:
        server, client = {"ipv4": ("10.77.0.1", "10.77.0.2"), "ipv6": ("fd77::1", "fd77::2")}[family]
        program = os.path.join(PROGRAMS, "odd_validate")
        w.pair(w.a, [program, w.a.gid_index(server)], w.b, [program, w.b.gid_index(client), server], timeout=120)


def every_byte_ipv4(): validated("ipv4")
def every_byte_ipv6(): validated("ipv6")


def every_byte_under_loss():
    with World() as w:
        program = os.path.join(PROGRAMS, "odd_validate")
        w.pair(w.a, [program, w.a.gid_index("10.77.0.1")], w.b, [program, w.b.gid_index("10.77.0.2"), "10.77.0.1"], timeout=200,
               environment={"UROCE_FAULT": "drop=0.01,duplicate=0.01,reorder=0.02,seed=11"})


def small_socket_buffers():
    """The usual net.core.rmem_max of 212992, where SO_RCVBUFFORCE is not allowed either."""
    with World(names=("a",)) as w:
        run = lambda *command, **options: w.a.run(*command, user=65534, **options)
        run("rdma", "link", "add", "ur0", "type", "uroce", "netdev", "lo").ok()
        program = os.path.join(PROGRAMS, "odd_threads")
        run(program, "many", timeout=120).ok().has("^done$")
        run("sh", "-c", f"{BUILD}/tools/uroce/uroce stop").ok()
