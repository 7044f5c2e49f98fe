// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// RDMA netlink sockets: to the program of family NETLINK_RDMA and in talk with the kernel, in truth of
// NETLINK_USERSOCK and in talk with uroced. What another process sends to such a socket is dropped.
#ifndef UROCE_PRELOAD_NETLINK_H
#define UROCE_PRELOAD_NETLINK_H

#include <linux/netlink.h>
#include <sys/socket.h>

#include "kmod-shim/preload/descriptor.h"

// A socket, or a negative errno; -ENOENT: there is no uroced that serves RDMA netlink.
int netlink_open(int type);

// `address` with uroced in the place of the kernel; NULL means the kernel too. `room` is for the result.
const struct sockaddr* netlink_destination(const struct descriptor* socket, const struct sockaddr* address,
                                           socklen_t* length, struct sockaddr_nl* room);

// recvmsg() that knows who may talk and calls uroced the kernel. Sets errno; a cancellation point like the
// original.
ssize_t netlink_receive(const struct descriptor* socket, int fd, struct msghdr* message, int flags);

#endif
