#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# The guest's first process once the host's root is in place (read-only, with a writable layer over it). Runs /run/guest/command,
# says how it ended and gives the kernel's log on the third serial line, and switches the machine off.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 PYTHONDONTWRITEBYTECODE=1
. /run/guest/environment
mkdir -p /dev/pts /dev/shm /run/netns /run/lock "/lib/modules/$(uname -r)"
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /var/tmp
mount --bind "$GUEST_MODULES" "/lib/modules/$(uname -r)"
ln -s /proc/self/fd /dev/fd
ln -s /proc/self/fd/0 /dev/stdin
ln -s /proc/self/fd/1 /dev/stdout
ln -s /proc/self/fd/2 /dev/stderr
ip link set lo up
stty -F /dev/ttyS1 raw -echo
stty -F /dev/ttyS2 raw -echo
cd "$GUEST_FOLDER" || cd /
setsid /bin/sh /run/guest/command </dev/null >/dev/ttyS1 2>&1
code=$?
{ dmesg --color=never; echo "guest exit code: $code"; } >/dev/ttyS2
# Any byte to the debug-exit port ends qemu at once.
printf '\000' | dd of=/dev/port bs=1 seek=244 conv=notrunc 2>/dev/null
sleep 60
