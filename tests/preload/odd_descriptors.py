#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""What Python does to descriptor numbers, around an open device: nothing of it may reach the device or take it away."""
import ctypes
import glob
import os
import stat
import struct
import subprocess
import tempfile

ALLOC_PD = 3


def command(fd):
    response = ctypes.create_string_buffer(4)
    return os.write(fd, struct.pack("=IHHQ", ALLOC_PD, 4, 1, ctypes.addressof(response)))


def is_device(fd):
    return stat.S_ISCHR(os.fstat(fd).st_mode)


def file_at(number):
    handle = tempfile.TemporaryFile(buffering=0)
    if handle.fileno() != number:
        os.dup2(handle.fileno(), number)
    return handle


assert glob.glob("/sys/class/infiniband/u*") == ["/sys/class/infiniband/ur0"]
assert os.path.realpath("/sys/class/infiniband/ur0") == "/sys/devices/platform/uroce.0/infiniband/ur0"

fd = os.open("/dev/infiniband/uverbs0", os.O_RDWR)
assert is_device(fd) and command(fd) == 16

# The vfork child of subprocess closes everything, in our memory.
assert subprocess.run(["echo", "hi"], capture_output=True, check=True).stdout == b"hi\n"
subprocess.run(["true"], close_fds=True, check=True)
subprocess.run(["/bin/true"], close_fds=False, check=True)  # posix_spawn
assert is_device(fd) and command(fd) == 16

# A child that inherits the number has a socket there, and no device.
inherited = subprocess.run(["/usr/bin/python3", "-c", f"import os; os.fstat({fd})"], pass_fds=[fd], check=False)
assert inherited.returncode == 0 and command(fd) == 16

# The number goes to a file behind the stand-in's back.
os.closerange(fd, fd + 1)
log = file_at(fd)
assert os.write(fd, b"a line\n") == 7
assert os.pread(fd, 100, 0) == b"a line\n"
assert not is_device(fd)
log.close()

# A buffered file object that was the device.
fd = os.open("/dev/infiniband/uverbs0", os.O_RDWR)
with os.fdopen(fd, "wb", buffering=0):
    assert command(fd) == 16
log = file_at(fd)
assert os.write(fd, b"a line\n") == 7
log.close()

child = os.fork()
if child == 0:
    again = os.open("/dev/infiniband/uverbs0", os.O_RDWR)
    os._exit(0 if command(again) == 16 else 1)
assert os.waitpid(child, 0)[1] == 0
print("all as expected")
