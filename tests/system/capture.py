# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""What stands on the wire: legal RoCEv2, by two independent judges."""
import os
import subprocess
import tempfile
import time

from pingpong import pingpong
from world import World, expect, sh, wait_until

WIRE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../wire")


def captured(family, addresses):
    with World() as w:
        # veth hands segmented sends over whole; a capture should see what a wire would.
        for host, dev in ((w.a, "va"), (w.b, "vb")):
            host.sh("ethtool", "-K", dev, "tx-udp-segmentation", "off", "gso", "off", "gro", "off", check=False)
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "wire.pcap")
            capture = subprocess.Popen(["ip", "netns", "exec", w.a.name, "tshark", "-q", "-n", "-F", "pcap", "-i", "va", "-f", "udp port 4791",
                                        "-w", path], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            try:
                for line in capture.stderr:
                    if "Capture started" in line or "Capturing on" in line:
                        break
                time.sleep(1)  # tshark says so a moment before its child is there
                pingpong(w, "rc", w.a, addresses[0], w.b, addresses[1], "-s", "10000", "-n", "50", tcp="10.77.0.1")
                pingpong(w, "uc", w.a, addresses[0], w.b, addresses[1], "-s", "3000", "-n", "20", tcp="10.77.0.1")
                pingpong(w, "ud", w.a, addresses[0], w.b, addresses[1], "-s", "500", "-n", "20", tcp="10.77.0.1")
                wait_until(lambda: os.path.exists(path) and os.path.getsize(path) > 100_000, "the capture is written")
                time.sleep(1)
            finally:
                capture.terminate()
                capture.wait()
            print(sh("/usr/bin/python3", os.path.join(WIRE, "scapy_oracle.py"), "--capture", path))
            print(sh(os.path.join(WIRE, "tshark_oracle.sh"), "--capture", path))
            longest = max(int(n) for n in sh("tshark", "-n", "-r", path, "-T", "fields", "-e", "frame.len").split() if n.isdigit())
            expect(longest <= 1500 + 14, f"a frame of {longest} bytes over an MTU of 1500")


def ipv4(): captured("ipv4", ("10.77.0.1", "10.77.0.2"))
def ipv6(): captured("ipv6", ("fd77::1", "fd77::2"))
