/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What the provider and whoever answers its uverbs commands (the kernel module, or uroced behind the stand-in) say to each
 * other beyond <rdma/ib_user_verbs.h>. Driver data travels behind the core request and response of the same command. C, usable
 * in the kernel and in user space; the same layout is asserted on both sides.
 */
#ifndef UROCE_ABI_H
#define UROCE_ABI_H

#include <linux/types.h>

#define UROCE_DRIVER_ID 0x55524f43u /* far from enum rdma_driver_id, which grows by one per driver */
#define UROCE_ABI_VERSION 1
#define UROCE_MODALIAS "platform:uroce"
#define UROCE_VENDOR_ID 0x0075524f /* "\0uRO"; neither zero nor rxe's 0xffffff */
#define UROCE_VENDOR_PART_ID 1

/* Limits of the device, announced by QUERY_DEVICE and kept by whoever creates the objects. */
#define UROCE_SLOT_FIRST 1
#define UROCE_SLOT_LAST 1022
#define UROCE_GID_TABLE_LEN 128
#define UROCE_MAX_QP_PER_CONTEXT 16383
#define UROCE_MAX_SGE 32
#define UROCE_MAX_INLINE 1024
#define UROCE_MAX_QP_WR 32768
#define UROCE_MAX_CQE 4194303
#define UROCE_MAX_SRQ_WR 32768
#define UROCE_MAX_RD_ATOMIC 128
#define UROCE_MAX_MSG_SIZE 0x80000000u

/* GET_CONTEXT, driver response. */
struct uroce_get_context_resp {
	__u32 abi_version;
	__u32 slot; /* top 10 bits of every QPN of this context */
	__aligned_u64 cookie; /* shown to uroced's broker, together with the slot, to get the sockets */
};

/* CREATE_CQ, driver response. */
struct uroce_create_cq_resp {
	__u32 cq_id; /* names the CQ in a kick; behind the stand-in equal to the core's cq_handle */
	__u32 reserved;
};

/* REG_MR / ALLOC_MW need no driver data: keys are in the core response. Keys are index(24) | variant(8). */

/*
 * CREATE_SRQ, driver response: the core response of legacy CREATE_SRQ has srqn only for XRC. SRQ numbers are per device.
 */
struct uroce_create_srq_resp {
	__u32 srq_number;
	__u32 reserved;
};

/*
 * The kick: a private write command on the unused number IB_USER_VERBS_CMD_PEEK_CQ, no response. It wakes a completion channel or
 * raises an async event. Answered by the module in the kernel and by the stand-in in the process. EAGAIN (stand-in only): the
 * channel is full now; send the kick again later.
 */
enum uroce_kick_kind {
	UROCE_KICK_COMPLETION = 1, /* id: cq_id */
	UROCE_KICK_CQ_EVENT = 2,   /* id: cq_id */
	UROCE_KICK_QP_EVENT = 3,   /* id: QPN */
	UROCE_KICK_SRQ_EVENT = 4,  /* id: SRQ number */
	UROCE_KICK_DEVICE_FATAL = 5,
};

struct uroce_kick {
	__u32 kind;
	__u32 id;
	__u32 event_type; /* enum ib_event_type for the EVENT kinds */
	__u32 reserved;
	__aligned_u64 user_handle; /* the object's user_handle of its CREATE command; the module uses its own copy */
};

#endif
