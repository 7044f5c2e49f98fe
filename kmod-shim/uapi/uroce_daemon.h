/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What a process says to uroced over its Unix socket: SOCK_SEQPACKET on the abstract names "uroce" and "uroce-<uid>" (abstract
 * names are scoped to the network namespace). One connection has one role, given in HELLO. Every message is one packet: the header
 * and a payload; descriptors travel as SCM_RIGHTS. Integers in host order: both ends are on one machine.
 *
 * Identity: a client accepts a daemon of uid 0 or of its own uid (SO_PEERCRED), a daemon serves its own uid only. Look-up order:
 * own uid's name, then uid 0's, then the common one, which a daemon takes first: there is one in a network namespace. In a user
 * namespace the uids of the names say little, and the common one is where a user finds himself, or who else it is.
 *
 * HELLO of another uid is answered EPERM; EAGAIN by a daemon that nobody needs (no device, nobody attached). Asked as role WORLD such a
 * daemon leaves, a second after its own user's last HELLO.
 */
#ifndef UROCE_DAEMON_H
#define UROCE_DAEMON_H

#include <linux/types.h>

#define UROCE_DAEMON_NAME_FORMAT "uroce-%u" /* behind a NUL byte */
#define UROCE_DAEMON_COMMON_NAME "uroce"    /* the same */
/* Owner's uid, its process, own uid. Made by each client itself: a stranger's text is not for a terminal. */
#define UROCE_FOREIGN_DAEMON_FORMAT \
	"uroced in this network namespace belongs to uid %u (process %u) and serves that uid only; you are uid %u. Run the program as " \
	"that user, or use a network namespace of your own (unshare -n)"
#define UROCE_OVERFLOW_UID 65534u
#define UROCE_OVERFLOW_NOTE ". 65534 is also shown for every user whom your user namespace does not know"
#define UROCE_MSG_MAGIC 0x436f5275u
#define UROCE_MSG_VERSION 2
#define UROCE_DAEMON_CONTEXT_FDS 7 /* descriptors that each process of uroced needs for an open device, at most */
#define UROCE_MSG_MAX 65536 /* bytes of one message, header included */

enum uroce_msg_type {
	UROCE_MSG_HELLO = 1,   /* request: uroce_hello; reply: uroce_hello_reply */
	UROCE_MSG_COMMAND = 2, /* role uverbs, rdma_cm: the bytes the program wrote; reply: the bytes for `response` */
	UROCE_MSG_ADMIN = 3,   /* role admin: a JSON request; reply: JSON */
	UROCE_MSG_RELAY = 4,   /* role broker, both ways, no reply: uroce_relay + packet of another slot */
	UROCE_MSG_RESTARTED = 5, /* daemon to client, seq 0: the worker was replaced; send the pending request again, same seq */
	UROCE_MSG_GONE = 6,    /* daemon to client, seq 0: the device was removed or the daemon leaves; commands answer EIO */
};

struct uroce_msg {
	__u32 magic;
	__u16 version;
	__u16 type;
	__u32 seq;    /* chosen by the client, rises by one per request; the reply repeats it */
	__s32 status; /* replies: 0 or a positive errno */
};

enum uroce_role {
	UROCE_ROLE_WORLD = 1,   /* asks where things are; closed after the reply */
	UROCE_ROLE_UVERBS = 2,  /* is an open /dev/infiniband/uverbsN; arg = N */
	UROCE_ROLE_RDMA_CM = 3, /* is an open /dev/infiniband/rdma_cm; arg = 0 */
	UROCE_ROLE_BROKER = 4,  /* data path of a context; arg = slot, cookie as GET_CONTEXT gave it */
	UROCE_ROLE_ADMIN = 5,   /* uroce(1) */
};

struct uroce_hello {
	__u32 role;
	__u32 arg;
	__aligned_u64 cookie;
	char version[32]; /* project version of the client */
};

/* With a status other than 0 `text` has a sentence for a person: what, why, what to do. */
struct uroce_hello_reply {
	char version[32];
	__u32 netlink_port; /* port id of uroced's NETLINK_USERSOCK socket that speaks the RDMA netlink family */
	__u32 pid;
	char tree[192];     /* real directory with sys/... and dev/... below it */
	char text[512];
	__u32 channel;      /* RDMA_CM: its number, for MIGRATE_ID; not 0 */
	__u32 reserved;
	/*
	 * Descriptors: BROKER: receive socket of the slot, memfd of uroce_slot_page (rw), memfd of uroce_device_page (ro).
	 * RDMA_CM: the program's end of the channel.
	 */
};

/*
 * COMMAND of role uverbs: payload = exactly what was written (ib_uverbs_cmd_hdr and so on). Reply payload: the bytes to store at the
 * request's response address (may be empty); with a status other than 0 a sentence for a person, or nothing. Descriptors of the reply: GET_CONTEXT: [0] the program's end of the async event
 * socketpair, its number goes to async_fd; [1] the far end, kept by the stand-in for kicks. CREATE_COMP_CHANNEL and the kick
 * never come here: the stand-in answers them.
 */

/*
 * COMMAND of role rdma_cm: the connection is one open /dev/infiniband/rdma_cm and is kept by the stand-in. What the program holds is
 * one end of a SOCK_STREAM pair; the hang-up of uroced's end is the close of the file: its ids are destroyed, the connection ends.
 *
 * In the program's end lies one byte per event that waits in uroced, so it is readable exactly while events wait. A socket takes some
 * 278 bytes; uroced owes the others and sends them as room appears. Who asks for an event takes a byte first: GET_EVENT never waits,
 * EAGAIN says that there is none. An event that is not given for another reason stays, and its byte is sent again.
 *
 * Payload: what was written (rdma_ucm_cmd_hdr and the request), but: SET_OPTION is followed by the `optlen` bytes that are at `optval`
 * (UROCE_CM_OPTION_MAX at most, else EINVAL); MIGRATE_ID has, in the place of `fd`, the number of the channel that `fd` is.
 * Reply payload: uroce_cm_reply, then the bytes to store at the request's response address, which are as many as the header's `out`
 * at most.
 */
#define UROCE_CM_OPTION_MAX 16384
struct uroce_cm_reply {
	__u32 withdrawn; /* bytes to take off the channel (MIGRATE_ID: off the old one): sent, but their events are gone or moved */
	__u32 reserved;
};

/* A packet for `slot` that arrived in somebody else's buffer. */
struct uroce_relay {
	__u32 slot;
	__u32 ifindex;
	__u8 source[16];
	__u8 destination[16];
	__u16 source_port;
	__u8 traffic_class;
	__u8 hop_limit;
	/* BTH .. pad follows */
};

/*
 * Device page: one per device, written by uroced, read by every process (read-only mapping, sealed memfd). Seqlock: `sequence` is odd
 * while uroced writes; read it before and after.
 */
struct uroce_gid_entry {
	__u8 gid[16]; /* all zero: empty slot */
	__u32 ifindex; /* netdev that has the address (an upper VLAN device, say) */
	__u32 reserved;
};

struct uroce_device_page {
	__u32 sequence;
	__u32 port_state;      /* enum ib_port_state: 4 ACTIVE, 1 DOWN */
	__u32 active_mtu;      /* enum ib_mtu */
	__u32 ifindex;         /* netdev of the link */
	__u32 netdev_mtu;
	__u32 transport;       /* enum uroce_transport: choice of the link */
	__u32 min_timeout_ms;  /* floor of the IB timeout */
	__u32 removed;         /* the link was deleted */
	__u64 reserved[12];
	struct uroce_gid_entry gids[128];
};

enum uroce_transport {
	UROCE_TRANSPORT_AUTO = 0,
	UROCE_TRANSPORT_UDP = 1,
	UROCE_TRANSPORT_XDP = 2,
	UROCE_TRANSPORT_LOCAL = 3,
};

/*
 * Slot page: one per context, written by the process, read by uroced (which trusts none of it): counters for `rdma statistic` and QP
 * states for `rdma resource`. A sealed memfd of fixed size.
 */
#define UROCE_SLOT_COUNTERS 64
struct uroce_slot_qp {
	__u32 state; /* enum ib_qp_state */
	__u32 sq_psn;
	__u32 rq_psn;
	__u32 reserved;
};
struct uroce_slot_page {
	__u32 magic;
	__u32 counter_count;
	char transport_text[248];               /* Transport::describe() */
	__u64 counters[UROCE_SLOT_COUNTERS];    /* enum uroce_counter */
	struct uroce_slot_qp qps[16384];        /* by QPN index */
};

enum uroce_counter { /* names in `rdma statistic` are these, lower case, without the prefix */
	UROCE_CNT_SENT_PKTS,
	UROCE_CNT_RCVD_PKTS,
	UROCE_CNT_DUPLICATE_REQUEST,
	UROCE_CNT_OUT_OF_SEQ_REQUEST,
	UROCE_CNT_RCVD_RNR_ERR,
	UROCE_CNT_SEND_RNR_ERR,
	UROCE_CNT_RCVD_SEQ_ERR,
	UROCE_CNT_ACK_DEFERRED,
	UROCE_CNT_RETRY_EXCEEDED_ERR,
	UROCE_CNT_RETRY_RNR_EXCEEDED_ERR,
	UROCE_CNT_COMPLETER_RETRY_ERR,
	UROCE_CNT_SEND_ERR,
	UROCE_CNT_LINK_DOWNED,
	UROCE_CNT_RDMA_SENDS,
	UROCE_CNT_RDMA_RECVS,
	UROCE_CNT_SENT_BYTES,
	UROCE_CNT_RCVD_BYTES,
	UROCE_CNT_CNP_SENT,
	UROCE_CNT_CNP_RCVD,
	UROCE_CNT_RETRANSMITTED_PKTS,
	UROCE_CNT_TIMEOUTS,
	UROCE_CNT_BAD_ICRC,
	UROCE_CNT_DROPPED_PKTS, /* every other drop */
	UROCE_CNT_OTHER_SLOT,
	UROCE_CNT_MEMORY_FAULTS,
	UROCE_CNT_COUNT
};

/* Device numbers of the emulated nodes, as real ones have: stat() of /dev/infiniband/uverbsN and rdma_cm show these. */
#define UROCE_UVERBS_MAJOR 231
#define UROCE_UVERBS_MINOR(n) (192 + (n))
#define UROCE_RDMA_CM_MAJOR 10
#define UROCE_RDMA_CM_MINOR 58

#endif
