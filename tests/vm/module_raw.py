#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Speaks to the kernel module without any library, as a program with other credentials or with bad intentions would.

  module_raw.py credentials|kicks|slots|channel|own-channel DEVICE
"""
import ctypes
import errno
import fcntl
import os
import random
import resource
import struct
import sys
import threading

sys.dont_write_bytecode = True

DRIVER_ID = 0x55524F43
RDMA_VERBS_IOCTL = 0xC0181B01
GET_CONTEXT, ALLOC_PD, DEALLOC_PD, CREATE_COMP_CHANNEL, CREATE_CQ, PEEK_CQ = 0, 3, 4, 17, 18, 22
CORE_IN, CORE_OUT, WRITE_CMD, UHW_IN, UHW_OUT = 0, 1, 2, 0x1000, 0x1001
MANDATORY = 1
NOBODY = 65534


def uverbs_of(device):
    names = os.listdir("/sys/class/infiniband_verbs")
    for name in names:
        path = f"/sys/class/infiniband_verbs/{name}/ibdev"
        if os.path.exists(path) and open(path, encoding="ascii").read().strip() == device:
            return os.open(f"/dev/infiniband/{name}", os.O_RDWR)
    raise SystemExit(f"no {device} among {names}")


def invoke(fd, number, core_in=b"", core_out=0, uhw_out=0):
    """A write command by ioctl; (core response, driver response)."""
    keep, attributes = [], []

    def add(attribute, data, length):
        attributes.append(struct.pack("=HHHHQ", attribute, length, MANDATORY, 0, data))

    def pointer(size, content=b""):
        buffer = ctypes.create_string_buffer(content, size)
        keep.append(buffer)
        return ctypes.addressof(buffer), buffer

    add(WRITE_CMD, number, 8)
    if core_in:
        inline = len(core_in) <= 8
        add(CORE_IN, int.from_bytes(core_in, "little") if inline else pointer(len(core_in), core_in)[0], len(core_in))
    outputs = []
    for attribute, size in ((CORE_OUT, core_out), (UHW_OUT, uhw_out)):
        if size:
            address, buffer = pointer(size)
            add(attribute, address, size)
            outputs.append(buffer)
        else:
            outputs.append(b"")
    header = struct.pack("=HHHHQII", 24 + 16 * len(attributes), 0, 0, len(attributes), 0, DRIVER_ID, 0)
    fcntl.ioctl(fd, RDMA_VERBS_IOCTL, bytearray(header + b"".join(attributes)), True)
    return tuple(bytes(output) for output in outputs)


def get_context(fd):
    core, ours = invoke(fd, GET_CONTEXT, struct.pack("=Q", 0), 8, 16)
    version, slot, cookie = struct.unpack("=IIQ", ours)
    assert version == 1 and 1 <= slot <= 1022 and cookie, ours
    return slot, cookie, struct.unpack("=II", core)[0]


def create_cq(fd, channel):
    request = struct.pack("=QQIIii", 0, 0x1234, 16, 0, channel, 0)
    core, ours = invoke(fd, CREATE_CQ, request, 8, 8)
    return struct.unpack("=II", core)[0], struct.unpack("=II", ours)[0]


def kick(fd, kind, identity, event=0, reserved=0):
    return invoke(fd, PEEK_CQ, struct.pack("=IIIIQ", kind, identity, event, reserved, 0))


def fails(wanted, call, *words):
    try:
        call(*words)
    except OSError as problem:
        if problem.errno == wanted:
            return
        raise SystemExit(f"{call.__name__}{words}: {problem}, not {errno.errorcode[wanted]}") from None
    raise SystemExit(f"{call.__name__}{words} succeeds")


def by_write(fd):
    """ALLOC_PD as plain write()."""
    response = ctypes.create_string_buffer(4)
    os.write(fd, struct.pack("=IHHQ", ALLOC_PD, 4, 1, ctypes.addressof(response)))


def credentials(device):
    fd = uverbs_of(device)
    get_context(fd)
    by_write(fd)
    alloc = lambda: invoke(fd, ALLOC_PD, struct.pack("=Q", 0), 4)
    child = os.fork()
    if child == 0:
        try:
            fails(errno.EACCES, by_write, fd)
            alloc()
        except BaseException as problem:  # whatever it is, the parent is told
            print(problem, flush=True)
            os._exit(1)
        os._exit(0)
    if os.waitpid(child, 0)[1] != 0:
        raise SystemExit("the child's commands fail")
    # Through the provider: from a thread with another fsuid, then after setuid.
    import pyverbs.device as d
    from pyverbs.cq import CQ
    from pyverbs.pd import PD
    context = d.Context(name=device)
    trouble = []

    def in_thread():
        try:
            ctypes.CDLL(None).setfsuid(NOBODY)
            PD(context).close()
            CQ(context, 8).close()
        except Exception as problem:
            trouble.append(problem)
    thread = threading.Thread(target=in_thread)
    thread.start()
    thread.join()
    if trouble:
        raise SystemExit(f"with another fsuid: {trouble[0]}")
    os.setuid(NOBODY)
    fails(errno.EACCES, by_write, fd)
    alloc()
    pd, cq = PD(context), CQ(context, 8)
    cq.close()
    pd.close()
    context.close()


def kicks(device):
    fd, other = uverbs_of(device), uverbs_of(device)
    slot, _, _ = get_context(fd)
    get_context(other)
    channel = struct.unpack("=I", invoke(fd, CREATE_COMP_CHANNEL, struct.pack("=Q", 0), 4)[0])[0]
    _, cq = create_cq(fd, channel)
    kick(fd, 1, cq)
    assert struct.unpack("=Q", os.read(channel, 8))[0] == 0x1234
    fails(errno.EINVAL, kick, fd, 1, cq + 1)
    fails(errno.EINVAL, kick, fd, 1, cq, 0, 1)   # reserved
    fails(errno.EINVAL, kick, other, 1, cq + 7)
    fails(errno.EINVAL, kick, fd, 2, cq, 8)      # a CQ does not say DEVICE_FATAL
    fails(errno.EINVAL, kick, fd, 3, 1, 1)       # QP 1 is the kernel's
    fails(errno.EINVAL, kick, fd, 3, slot << 14, 1)
    fails(errno.EINVAL, kick, fd, 3, slot + 1 << 14, 1)
    fails(errno.EINVAL, kick, fd, 4, 1, 15)
    fails(errno.EOPNOTSUPP, kick, fd, 5, 0, 8)
    fails(errno.EINVAL, kick, fd, 99, 0)
    seed = random.randrange(1 << 32)
    print("seed", seed)
    source = random.Random(seed)
    for _ in range(20000):
        try:
            kick(fd, source.randrange(7), source.choice([cq, slot << 14, 1, source.randrange(1 << 32)]), source.randrange(24))
        except OSError:
            pass
    # Wrong sizes.
    fails(errno.ENOSPC, invoke, fd, PEEK_CQ, b"\0" * 16)
    fails(errno.EINVAL, invoke, fd, PEEK_CQ, b"\0" * 40)
    fails(errno.EINVAL, invoke, fd, CREATE_CQ, struct.pack("=QQIIii", 0, 0, 16, 0, -1, 0), 8)  # no room for our response


MAD = struct.Struct("=II16s16sIIIIBB6s256s")
NEWS = 16 * 8 + 8 + 16
DEVICE = 4 + 4 + 64 + 8 + 16 + 24 * 128


def ioctl_number(direction, size, number):
    return direction << 30 | size << 16 | ord("U") << 8 | number


READY, RELEASE = ioctl_number(1, 4, 0xE1), ioctl_number(1, 4, 0xE5)
NEWS_IOCTL, DEVICE_IOCTL, SLOT_IOCTL = ioctl_number(2, NEWS, 0xE2), ioctl_number(3, DEVICE, 0xE3), ioctl_number(3, 24, 0xE4)


def ask_slot(fd, slot, cookie, reserved=0):
    buffer = bytearray(struct.pack("=IIQII", slot, reserved, cookie, 0, 0))
    fcntl.ioctl(fd, SLOT_IOCTL, buffer, True)
    return struct.unpack("=IIQII", buffer)[3:]


def release(fd, slot):
    fcntl.ioctl(fd, RELEASE, struct.pack("=I", slot))


def channel(device):
    """uroced has it; and it is not for everybody."""
    fails(errno.EBUSY, os.open, "/dev/uroce", os.O_RDWR)
    child = os.fork()
    if child == 0:
        os.setuid(NOBODY)
        try:
            fails(errno.EPERM, os.open, "/dev/uroce", os.O_RDWR)
        except BaseException as problem:
            print(problem, flush=True)
            os._exit(1)
        os._exit(0)
    if os.waitpid(child, 0)[1] != 0:
        raise SystemExit("anybody may open the channel")


def own_channel(device):
    """In uroced's place, with everything that it does not do."""
    fd = os.open("/dev/uroce", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(fd, READY, struct.pack("=I", 1))
    fails(errno.EINVAL, fcntl.ioctl, fd, READY, struct.pack("=I", 2))
    fails(errno.ENOTTY, fcntl.ioctl, fd, 0x5501)
    fails(errno.EAGAIN, os.read, fd, MAD.size)
    fails(errno.EINVAL, os.read, fd, MAD.size - 1)
    buffer = bytearray(DEVICE)
    struct.pack_into("=I", buffer, 0, 0xFFFFFFFF)
    fcntl.ioctl(fd, DEVICE_IOCTL, buffer, True)
    index, = struct.unpack_from("=I", buffer, 4)
    ifindex, = struct.unpack_from("=I", buffer, 80)
    assert buffer[8:72].rstrip(b"\0").decode() == device, bytes(buffer[8:72])
    gid = next(bytes(buffer[at:at + 16]) for at in range(96, DEVICE, 24) if buffer[at + 10:at + 12] == b"\xff\xff")
    peer = gid[:12] + bytes([10, 78, 0, 1])

    def write(device=index, ifindex=ifindex, local=gid, remote=peer, lqpn=1, rqpn=1, qkey=0, label=0, reserved=b"\0" * 6, mad=b"\0" * 256):
        return os.write(fd, MAD.pack(device, ifindex, local, remote, lqpn, rqpn, qkey, label, 0, 64, reserved, mad))

    assert write() == MAD.size
    fails(errno.EINVAL, os.write, fd, b"\0" * (MAD.size - 1))
    fails(errno.EINVAL, os.write, fd, b"\0" * (MAD.size + 1))
    for wanted, words in ((errno.ENODEV, {"device": index + 100}), (errno.ENODEV, {"device": 0}),  # the other namespace's
                          (errno.EADDRNOTAVAIL, {"local": gid[:15] + b"\x63"}), (errno.EADDRNOTAVAIL, {"ifindex": ifindex + 50}),
                          (errno.EINVAL, {"remote": b"\0" * 16}), (errno.EINVAL, {"remote": b"\xff\x02" + b"\0" * 14}),
                          (errno.EINVAL, {"lqpn": 2}), (errno.EINVAL, {"rqpn": 1 << 24}), (errno.EINVAL, {"qkey": 1}),
                          (errno.EINVAL, {"label": 1 << 20}), (errno.EINVAL, {"reserved": b"\1" + b"\0" * 5})):
        try:
            write(**words)
        except OSError as problem:
            if problem.errno != wanted:
                raise SystemExit(f"{words}: {problem}") from None
        else:
            raise SystemExit(f"{words} is taken")
    seed = random.randrange(1 << 32)
    print("seed", seed)
    source = random.Random(seed)
    for _ in range(5000):  # MADs of every kind, into ib_mad
        head = bytes([1, source.choice([1, 3, 4, 7, 0x81, source.randrange(256)]), source.randrange(4), source.randrange(256)])
        write(mad=head + source.randbytes(252))

    verbs = uverbs_of(device)
    slot, cookie, _ = get_context(verbs)
    assert ask_slot(fd, slot, cookie) == (index, os.getpid())
    fails(errno.EPERM, ask_slot, fd, slot, cookie ^ 1)
    fails(errno.ENOENT, ask_slot, fd, slot % 1022 + 1, cookie)
    fails(errno.EINVAL, ask_slot, fd, 0, cookie)
    fails(errno.EINVAL, ask_slot, fd, 1023, cookie)
    fails(errno.EINVAL, ask_slot, fd, slot, cookie, 1)
    fails(errno.EBUSY, release, fd, slot)
    fails(errno.EINVAL, release, fd, 0)
    fails(errno.EINVAL, release, fd, 1 << 31)
    os.close(verbs)
    fails(errno.EBUSY, release, fd, slot)  # ended, and we do not know it yet
    news = bytearray(NEWS)
    fcntl.ioctl(fd, NEWS_IOCTL, news, True)
    ended = struct.unpack_from("=16Q", news)
    assert ended[slot // 64] >> slot % 64 & 1, ended
    verbs = uverbs_of(device)
    again, _, _ = get_context(verbs)
    assert again != slot, "an ended slot is given away before it was released"
    release(fd, slot)
    fails(errno.EBUSY, release, fd, slot)
    third = uverbs_of(device)
    assert get_context(third)[0] == slot
    os.close(third)


def every_slot_and_no_more(device):
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
    files = []
    while len(files) < 2000:
        files.append(uverbs_of(device))
        try:
            get_context(files[-1])
        except OSError as problem:
            if problem.errno != errno.ENOMEM:
                raise
            break
    # The last one was refused; some may still wait for uroced's release.
    assert 1000 < len(files) <= 1023, len(files)


if __name__ == "__main__":
    {"credentials": credentials, "kicks": kicks, "channel": channel, "own-channel": own_channel, "slots": every_slot_and_no_more}[sys.argv[1]](
        sys.argv[2])
    print("all as it should be")
