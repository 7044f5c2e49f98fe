/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What the kernel module and uroced say to each other through /dev/uroce. There is one opener per network namespace, namely uroced,
 * and it needs CAP_NET_ADMIN over that namespace. The channel serves the links whose netdev is in the namespace of the process that
 * opened it, wherever it is used later.
 *
 * read(): whole uroce_channel_mad records that the kernel's QP 1 sends, oldest first; EAGAIN when there is none (O_NONBLOCK) and EINVAL
 * for a buffer without room for one. write(): one record that arrived for QP 1. poll(): readable while records or news wait, always
 * writable. When the channel closes, the ports of its links go down and their contexts are told DEVICE_FATAL.
 */
#ifndef UROCE_CHANNEL_H
#define UROCE_CHANNEL_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define UROCE_CHANNEL_NODE "uroce"
#define UROCE_CHANNEL_VERSION 1
#define UROCE_CHANNEL_QUEUE 256 /* records that wait for read(); more are dropped and counted */
#define UROCE_CHANNEL_MAD_BYTES 256
#define UROCE_CHANNEL_GIDS 128
#define UROCE_CHANNEL_SLOT_WORDS 16 /* 1024 bits */

/*
 * One MAD between QP 1 of a link and QP 1 (or another QP) of a peer. `local` is a GID of the link in both directions: the source of
 * what leaves, the destination of what arrives.
 */
struct uroce_channel_mad {
	__u32 device;  /* index of the link, as `rdma link` shows it */
	__u32 ifindex; /* netdev of `local` */
	__u8 local[16];
	__u8 remote[16];
	__u32 local_qpn;  /* 1 */
	__u32 remote_qpn;
	__u32 qkey;       /* outgoing; 0 when writing */
	__u32 flow_label; /* of 20 bits */
	__u8 traffic_class;
	__u8 hop_limit;
	__u8 reserved[6]; /* 0 */
	__u8 mad[UROCE_CHANNEL_MAD_BYTES];
};

/* What has happened since it was asked last; asking clears it. */
struct uroce_channel_news {
	__aligned_u64 ended[UROCE_CHANNEL_SLOT_WORDS]; /* bit n: slot n ended; it stays taken until it is released */
	__u32 devices_changed;                         /* ask for all devices again */
	__u32 reserved;
	__aligned_u64 dropped_outgoing; /* since the channel was opened: the queue was full */
	__aligned_u64 dropped_incoming; /* since the channel was opened: no receive buffer at QP 1 */
};

struct uroce_channel_gid {
	__u8 gid[16]; /* all zero: empty slot, or its netdev is in another network namespace */
	__u32 ifindex;
	__u32 reserved;
};

struct uroce_channel_device {
	__u32 after; /* in: the index before, or UROCE_CHANNEL_FIRST; ENOENT: there are no more */
	__u32 index;
	char name[64];
	__aligned_u64 node_guid; /* big-endian */
	__u32 ifindex;           /* netdev of the link */
	__u32 netdev_mtu;
	__u32 netdev_up;  /* it runs and has a carrier */
	__u32 active_mtu; /* enum ib_mtu */
	struct uroce_channel_gid gids[UROCE_CHANNEL_GIDS];
};
#define UROCE_CHANNEL_FIRST 0xffffffffu

/* Whose is this slot? EPERM: not the one with this cookie. ENOENT: nobody's, or it has ended. */
struct uroce_channel_slot {
	__u32 slot;
	__u32 reserved; /* 0 */
	__aligned_u64 cookie;
	__u32 device; /* out: index of the link */
	__u32 pid;    /* out: the process that opened the context, in the caller's pid namespace; 0: not in it */
};

#define UROCE_CHANNEL_VERSION_IOCTL _IOR('U', 0xe0, __u32)
#define UROCE_CHANNEL_READY _IOW('U', 0xe1, __u32) /* 1: the data path works, ports may be up; 0: not */
#define UROCE_CHANNEL_NEWS _IOR('U', 0xe2, struct uroce_channel_news)
#define UROCE_CHANNEL_DEVICE _IOWR('U', 0xe3, struct uroce_channel_device)
#define UROCE_CHANNEL_SLOT _IOWR('U', 0xe4, struct uroce_channel_slot)
#define UROCE_CHANNEL_RELEASE _IOW('U', 0xe5, __u32) /* an ended slot may be given away again; EBUSY: it is in use */

#endif
