#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""tshark reads each field of each message as it was written. usage: cm_tshark_oracle.py CM_FRAMES

Left out: flow label and packet rate, of which tshark 4.0 reads three bytes and the wrong one; MRA and SIDR, which it does not know."""
import os
import subprocess
import sys
import tempfile

REQ, REP, RTU, REJ, DREQ, DRSP = ("infiniband.cm.%s." % m for m in ("req", "rep", "rtu", "rej", "dreq", "drsp"))
COMMON = {"infiniband.mad.baseversion": 1, "infiniband.mad.mgmtclass": 7, "infiniband.mad.classversion": 2, "infiniband.mad.method": 3,
          "infiniband.mad.status": 0, "infiniband.mad.attributemodifier": 0}
FRAMES = [
    {"infiniband.mad.attributeid": 0x10, "infiniband.mad.transactionid": 0xa1a2a3a4a5a6a7a8, "infiniband.cm.req": 0x01020304,
     REQ + "serviceid.prefix": "0000000001", REQ + "serviceid.protocol": 0x06, REQ + "serviceid.dport": 7471,
     REQ + "localcaguid": 0x1112131415161718, REQ + "localqkey": 0x21222324, REQ + "localqpn": 0x010203, REQ + "responderres": 17,
     REQ + "localeecn": 0, REQ + "initdepth": 18, REQ + "remoteeecn": 0, REQ + "remoteresptout": 20, REQ + "transpsvctype": 1,
     REQ + "e2eflowctrl": 0, REQ + "startpsn": 0x0a0b0c, REQ + "localresptout": 21, REQ + "retrcount": 5, REQ + "pkey": 0x8001,
     REQ + "pppmtu": 3, REQ + "rdcexist": 0, REQ + "rnrretrcount": 6, REQ + "maxcmretr": 15, REQ + "srq": 1, REQ + "ext_transport": 0,
     REQ + "prim_locallid": 0xffff, REQ + "prim_remotelid": 0xffff, REQ + "prim_localgid_ipv4": "10.0.0.1",
     REQ + "prim_remotegid_ipv4": "10.0.0.2", REQ + "prim_tfcclass": 0x68,
     REQ + "prim_hoplim": 64, REQ + "prim_sl": 3, REQ + "prim_subnetlocal": 0, REQ + "prim_localacktout": 19,
     REQ + "ip_cm.majv": 0, REQ + "ip_cm.minv": 0, REQ + "ip_cm.ipv": 4, REQ + "ip_cm.sport": 40000, REQ + "ip_cm.sip4": "10.0.0.1",
     REQ + "ip_cm.dip4": "10.0.0.2"},
    {"infiniband.mad.attributeid": 0x13, "infiniband.cm.rep": 0x05060708, REP + "remotecommid": 0x01020304, REP + "localqkey": 0x31323334,
     REP + "localqpn": 0x040506, REP + "localeecn": 0x070809, REP + "startpsn": 0x0d0e0f, REP + "respres": 4, REP + "initdepth": 5,
     REP + "tgtackdelay": 9, REP + "failoveracc": 2, REP + "e2eflowctrl": 0, REP + "rnrretrcount": 7, REP + "srq": 1,
     REP + "localcaguid": 0x4142434445464748},
    {"infiniband.mad.attributeid": 0x14, RTU + "localcommid": 11, RTU + "remotecommid": 12},
    {"infiniband.mad.attributeid": 0x12, REJ + "localcommid": 21, REJ + "remotecommid": 22, REJ + "msgrej": 1, REJ + "rejinfolen": 8,
     REJ + "reason": 28},
    {"infiniband.mad.attributeid": 0x15, DREQ + "localcommid": 31, DREQ + "remotecommid": 32, REQ + "remoteqpneecn": 0x0f0e0d},
    {"infiniband.mad.attributeid": 0x16, DRSP + "localcommid": 41, DRSP + "remotecommid": 42},
]


def same(seen, wanted):
    if isinstance(wanted, str):
        return seen == wanted
    try:
        return int(seen, 0) == wanted
    except ValueError:
        return False


def main():
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "cm.pcap")
        subprocess.run([sys.argv[1], path], check=True)
        names = sorted({name for frame in FRAMES for name in frame} | set(COMMON))
        command = ["tshark", "-n", "-r", path, "-T", "fields", "-E", "occurrence=f", "-E", "separator=|"]
        for name in names:
            command += ["-e", name]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    rows = done.stdout.splitlines()
    assert len(rows) == len(FRAMES), f"{len(rows)} frames dissected, {len(FRAMES)} written"
    wrong = []
    for number, (row, frame) in enumerate(zip(rows, FRAMES)):
        seen = dict(zip(names, row.split("|")))
        for name, wanted in {**COMMON, **frame}.items():
            if not same(seen[name], wanted):
                wrong.append(f"frame {number + 1}: {name} is {seen[name]!r}, should be {wanted!r}")
    print("\n".join(wrong) or f"{len(rows)} messages, every field as it was written")
    return 1 if wrong else 0


sys.exit(main())
