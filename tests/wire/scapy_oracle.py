#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Reads a capture and computes every ICRC independently: IPv4 with scapy's RoCE layer, IPv6 from annex A17 with zlib.

usage: scapy_oracle.py WIRE_FRAMES        (runs it to get a capture)
       scapy_oracle.py --capture FILE     (a capture of real traffic; every packet must be right and have DF set)
"""
import os
import struct
import subprocess
import sys
import tempfile
import zlib

from scapy.all import IP, IPv6, UDP, raw, rdpcap
from scapy.contrib.roce import BTH


def icrc_ipv6(packet):
    ip = bytearray(raw(packet[IPv6])[:40])
    ip[0:4] = b"\x6f\xff\xff\xff"
    ip[7] = 0xFF
    udp = bytearray(raw(packet[UDP]))[: packet[UDP].len]
    udp[6:8] = b"\xff\xff"
    udp[8 + 4] = 0xFF
    return struct.pack("<I", zlib.crc32(b"\xff" * 8 + bytes(ip) + bytes(udp[:-4])))


def check(packet):
    udp_bytes = raw(packet[UDP])[: packet[UDP].len]
    if packet.haslayer(IP):
        # Rebuilt by scapy from its own fields, without the ICRC that stands in the packet.
        fresh = packet[IP].copy()
        bth = fresh[UDP].payload
        assert isinstance(bth, BTH), packet.summary()
        computed = bth.compute_icrc(None)
        assert packet[IP].flags.DF, "DF is not set: " + packet.summary()
    else:
        computed = icrc_ipv6(packet)
    assert udp_bytes[-4:] == computed, (
        f"ICRC {udp_bytes[-4:].hex()} should be {computed.hex()}: {packet.summary()}")


def main():
    if sys.argv[1] == "--capture":
        packets = [p for p in rdpcap(sys.argv[2]) if p.haslayer(UDP) and p[UDP].dport == 4791]
    else:
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "frames.pcap")
            subprocess.run([sys.argv[1], path], check=True)
            packets = list(rdpcap(path))
    assert len(packets) > 10, f"only {len(packets)} packets"
    for packet in packets:
        check(packet)
    print(f"{len(packets)} packets, every ICRC right")


main()
