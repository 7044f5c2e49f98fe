# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""perftest, unchanged: every verb and transport it knows, at every size, with and without events."""
import os

from world import Failure, World, expect

SERVER, CLIENT = "10.77.0.1", "10.77.0.2"


def perftest(w, program, *options, timeout=120):
    server = [program, "-d", "ur0", "-x", w.a.gid_index(SERVER), "-F", *options]
    client = [program, "-d", "ur0", "-x", w.b.gid_index(CLIENT), "-F", *options, SERVER]
    answer, _ = w.pair(w.a, server, w.b, client, timeout=timeout)
    # A result line starts with the size and the number of iterations.
    lines = [line.split() for line in answer.out.splitlines() if line.strip()[:1].isdigit()]
    expect(lines, f"{program} {options}: no result in\n{answer.out}")
    return lines


def all_sizes(program, *options):
    with World(mtu=4500) as w:
        lines = perftest(w, program, "-a", "-n", "20", *options)
        expect(lines[0][0] == "2" and lines[-1][0] == "8388608", f"{lines}")


def some(*runs):
    with World() as w:
        for run in runs:
            perftest(w, *run)


def send_bw_all(): all_sizes("ib_send_bw")
def write_bw_all(): all_sizes("ib_write_bw")
def read_bw_all(): all_sizes("ib_read_bw")
def send_lat_all(): all_sizes("ib_send_lat")
def write_lat_all(): all_sizes("ib_write_lat")
def read_lat_all(): all_sizes("ib_read_lat")


def atomics():
    some(*[(program, "-n", "500", "-A", kind) for program in ("ib_atomic_bw", "ib_atomic_lat") for kind in ("CMP_AND_SWAP", "FETCH_AND_ADD")])


def bidirectional():
    some(*[(program, "-n", "500", "-b") for program in ("ib_send_bw", "ib_write_bw", "ib_read_bw")])


def events():
    some(*[(program, "-n", "500", "-e") for program in ("ib_send_bw", "ib_send_lat", "ib_read_bw", "ib_read_lat")])


def inline():
    some(*[(program, "-n", "500", "-s", "64", "--inline_size=64") for program in ("ib_send_lat", "ib_write_lat", "ib_send_bw", "ib_write_bw")])


def many_qps():
    some(*[(program, "-n", "300", "-q", "16") for program in ("ib_send_bw", "ib_write_bw", "ib_read_bw")])


def post_list():
    some(*[(program, "-n", "400", "-l", "8") for program in ("ib_send_bw", "ib_write_bw", "ib_read_bw")])


def unreliable_connection():
    some(*[(program, "-n", "500", "-c", "UC") for program in ("ib_send_lat", "ib_write_lat")])
    with World() as w:
        for program in ("ib_send_bw", "ib_write_bw"):
            # With small buffers messages are lost while the receiver has no CPU, and perftest waits for them for ever.
            for tries_left in (2, 1, 0) if "UROCE_RECEIVE_BUFFER" in os.environ else (0,):
                try:
                    perftest(w, program, "-n", "500", "-c", "UC", "-s", "4096", timeout=30)
                    break
                except Failure:
                    if tries_left == 0:
                        raise


def unreliable_connection_long_messages():
    """Nobody repairs what is lost, and perftest waits for it for ever: a receiver that gets its CPU late finds all of it. With small
    buffers nobody can promise that."""
    with World() as w:
        for program in ("ib_send_bw", "ib_write_bw"):
            perftest(w, program, "-n", "200", "-c", "UC", "-s", "524288")


def datagram():
    some(("ib_send_lat", "-n", "500", "-c", "UD", "-s", "64"), ("ib_send_bw", "-n", "500", "-c", "UD", "-s", "1024"))


def xrc():
    some(("ib_send_bw", "-n", "300", "-c", "XRC"), ("ib_write_bw", "-n", "300", "-c", "XRC"))


def shared_receive_queue():
    some(("ib_send_bw", "-n", "500", "--use-srq"), ("ib_send_bw", "-n", "500", "--use-srq", "-q", "4"))


def small_mtus():
    some(*[("ib_write_bw", "-n", "200", "-m", str(mtu)) for mtu in (256, 512, 1024)])
