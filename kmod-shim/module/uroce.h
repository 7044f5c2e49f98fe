/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The kernel half of uroce: an ib_device per link, object ids and their
 * tracking, wake-ups, and a channel that carries the packets of QP 1 to and from
 * uroced. There is no protocol here; the data path is in the program's process.
 */
#ifndef UROCE_H
#define UROCE_H

#include <linux/kref.h>
#include <linux/mutex.h>
#include <linux/netdevice.h>
#include <linux/pid.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <linux/xarray.h>
#include <rdma/ib_verbs.h>

#include "kmod-shim/module/compat.h"
#include "kmod-shim/uapi/uroce_abi.h"
#include "kmod-shim/uapi/uroce_channel.h"

#define UROCE_NO_VLAN 0xffff
#define UROCE_INDEX_BITS 14 /* of a QPN; the slot is above */

/* Objects that a program may make, counted per link. */
enum uroce_kind {
	UROCE_PD,
	UROCE_MR,
	UROCE_MW,
	UROCE_CQ,
	UROCE_SRQ,
	UROCE_XRCD,
	UROCE_AH,
	UROCE_MCAST,
	UROCE_KINDS
};

struct uroce_channel;

/* What belongs to a network namespace; outlives it while a link refers to it. */
struct uroce_net {
	struct kref ref;
	spinlock_t lock; /* all of it and of its channel; taken with interrupts off */
	struct uroce_channel *channel; /* open, or NULL */
	bool ready; /* uroced serves the data path */
	struct uroce_slot *slots[UROCE_SLOT_LAST + 1]; /* live ones */
	u32 next_qp[UROCE_SLOT_LAST + 1]; /* where the search for a free QPN index goes on */
	DECLARE_BITMAP(taken, UROCE_SLOT_LAST + 1); /* live, or ended and not released */
	DECLARE_BITMAP(ended, UROCE_SLOT_LAST + 1); /* ended, and uroced does not know it yet */
	DECLARE_BITMAP(told, UROCE_SLOT_LAST + 1); /* ended, and uroced knows: it may release it */
};

/* A data path: one opened context. XRC target QPs may keep it longer. */
struct uroce_slot {
	struct kref ref;
	struct uroce_net *net;
	u32 number; /* top bits of its QPNs */
	u32 device; /* index of the link */
	u64 cookie; /* what the owner shows to uroced */
	struct pid *owner; /* the process that opened it */
	struct xarray qps; /* by QPN index; a reserved entry: not to be kicked */
};

struct uroce_gid {
	union ib_gid gid; /* zero: empty */
	u32 ifindex;
	u16 vlan; /* UROCE_NO_VLAN: none */
	bool foreign; /* its netdev is in another namespace */
};

struct uroce_device {
	struct ib_device ibdev;
	struct list_head entry; /* in uroce_devices */
	struct net_device *ndev; /* reference held */
	struct uroce_net *net; /* of the netdev; reference held */
	__be64 node_guid;
	spinlock_t port_lock; /* port_up, and the order of its events */
	bool port_up;
	spinlock_t gid_lock;
	struct uroce_gid gids[UROCE_GID_TABLE_LEN];
	spinlock_t gsi_lock; /* gsi; taken with interrupts off */
	struct uroce_qp *gsi;
	atomic_t counts[UROCE_KINDS];
	struct xarray keys; /* of regions and windows, by the index in the key */
	u32 next_key;
	u8 variant; /* of the next key */
	struct xarray srqs; /* by SRQ number */
	u32 next_srq;
};

struct uroce_context {
	struct ib_ucontext ibuc;
	struct uroce_slot *slot;
	struct xarray cqs; /* by cq_id */
	u32 next_cq;
};

struct uroce_pd {
	struct ib_pd ibpd;
};

struct uroce_mr {
	struct ib_mr ibmr;
};

struct uroce_mw {
	struct ib_mw ibmw;
};

struct uroce_xrcd {
	struct ib_xrcd ibxrcd;
	struct uroce_slot *slot; /* of the context that opened it first */
};

struct uroce_srq {
	struct ib_srq ibsrq;
	struct uroce_context *context;
	u32 number;
	struct ib_srq_attr attr;
};

/* Where a packet of QP 1 goes. */
struct uroce_route {
	union ib_gid local;
	union ib_gid remote;
	u32 ifindex;
	u32 flow_label;
	u8 traffic_class;
	u8 hop_limit;
};

struct uroce_ah {
	struct ib_ah ibah;
	bool counted; /* a program's */
	struct uroce_route route;
};

/* The kernel's own CQs (QP 1's) are rings; those of programs are only ids. */
struct uroce_cq {
	struct ib_cq ibcq;
	struct uroce_context *context; /* NULL: the kernel's */
	u32 id; /* in the context */
	spinlock_t lock; /* what follows; taken with interrupts off */
	struct ib_wc *ring;
	u32 size, head, used;
	bool armed;
};

struct uroce_receive {
	struct ib_cqe *cqe;
	void *buffer;
	u32 length;
};

struct uroce_qp {
	struct ib_qp ibqp;
	struct uroce_slot *slot; /* NULL: QP 1 */
	u32 index; /* in the slot */
	struct ib_qp_attr attr; /* what QUERY_QP answers */
	struct ib_qp_init_attr init;
	/* QP 1's receive queue; under the link's gsi_lock. */
	struct uroce_receive *receives;
	u32 size, head, used;
};

struct uroce_channel {
	struct uroce_net *net;
	struct uroce_channel_mad *queue; /* UROCE_CHANNEL_QUEUE of them */
	u32 head, used;
	bool devices_changed;
	u64 dropped_outgoing;
	u64 dropped_incoming;
	wait_queue_head_t wait;
};

#define uroce_dev(ib) container_of(ib, struct uroce_device, ibdev)
#define uroce_ctx(ib) container_of(ib, struct uroce_context, ibuc)

/* Links whose registration has begun and whose end has not; the lock may be held while sleeping. */
extern struct list_head uroce_devices;
extern struct mutex uroce_devices_lock;
extern const struct ib_device_ops uroce_device_ops;
extern const struct uapi_definition uroce_uapi[];
extern const struct file_operations uroce_channel_fops;

/* main.c */
struct uroce_net *uroce_net_of(const struct net *net); /* takes a reference */
struct uroce_net *uroce_net_create(void);
void uroce_net_put(struct uroce_net *net);

/* device.c */
int uroce_device_create(const char *name, struct net_device *ndev, struct uroce_net *net,
			struct device *parent);

/* link.c */
u32 uroce_limit(enum uroce_kind kind);
int uroce_take(struct uroce_device *dev,
	       enum uroce_kind kind); /* -ENOMEM: there are as many as there may be */
void uroce_give(struct uroce_device *dev, enum uroce_kind kind);

/* gid.c */
int uroce_add_gid(const struct ib_gid_attr *attr, void **context);
int uroce_del_gid(const struct ib_gid_attr *attr, void **context);
bool uroce_find_gid(struct uroce_device *dev, const union ib_gid *gid, u32 ifindex,
		    struct uroce_gid *found);

/* port.c */
int uroce_query_port(struct ib_device *ibdev, u32 port, struct ib_port_attr *attr);
enum rdma_link_layer uroce_get_link_layer(struct ib_device *ibdev, u32 port);
int uroce_query_pkey(struct ib_device *ibdev, u32 port, u16 index, u16 *pkey);
int uroce_get_port_immutable(struct ib_device *ibdev, u32 port,
			     struct ib_port_immutable *immutable);
enum ib_mtu uroce_active_mtu(unsigned int netdev_mtu); /* 0: too small for RoCE */
void uroce_port_update(struct uroce_device *dev); /* tells a change of state, once */
void uroce_port_event(struct uroce_device *dev, enum ib_event_type type);
void uroce_netdev_event(struct uroce_device *dev, unsigned long event);

/* slot.c */
struct uroce_slot *uroce_slot_take(struct uroce_net *net, u32 device);
struct uroce_slot *uroce_slot_get(struct uroce_slot *slot);
void uroce_slot_put(struct uroce_slot *slot);
void uroce_slot_end(struct uroce_slot *slot); /* its context is gone */
int uroce_slot_find(struct uroce_net *net, struct uroce_channel_slot *asked);
int uroce_slot_release(struct uroce_net *net, u32 number);
int uroce_slot_add_qp(struct uroce_slot *slot, struct uroce_qp *qp, bool kickable);
void uroce_slot_remove_qp(struct uroce_slot *slot, struct uroce_qp *qp);

/* context.c */
int uroce_alloc_ucontext(struct ib_ucontext *ibuc, struct ib_udata *udata);
void uroce_dealloc_ucontext(struct ib_ucontext *ibuc);
void uroce_disassociate_ucontext(struct ib_ucontext *ibuc);

/* kick.c */
int uroce_kick_one(struct uroce_context *context, const struct uroce_kick *kick);

/* pd.c, mr.c, srq.c, xrcd.c, ah.c */
int uroce_alloc_pd(struct ib_pd *ibpd, struct ib_udata *udata);
int uroce_dealloc_pd(struct ib_pd *ibpd, struct ib_udata *udata);
struct ib_mr *uroce_get_dma_mr(struct ib_pd *ibpd, int access);
struct ib_mr *uroce_reg_user_mr(struct ib_pd *ibpd, u64 start, u64 length, u64 iova, int access,
				UROCE_DMAH_ARG struct ib_udata *udata);
struct ib_mr *uroce_rereg_user_mr(struct ib_mr *ibmr, int flags, u64 start, u64 length, u64 iova,
				  int access, struct ib_pd *ibpd, struct ib_udata *udata);
int uroce_dereg_mr(struct ib_mr *ibmr, struct ib_udata *udata);
int uroce_alloc_mw(struct ib_mw *ibmw, struct ib_udata *udata);
int uroce_dealloc_mw(struct ib_mw *ibmw);
int uroce_create_srq(struct ib_srq *ibsrq, struct ib_srq_init_attr *init, struct ib_udata *udata);
int uroce_modify_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr, enum ib_srq_attr_mask mask,
		     struct ib_udata *udata);
int uroce_query_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr);
int uroce_destroy_srq(struct ib_srq *ibsrq, struct ib_udata *udata);
int uroce_alloc_xrcd(struct ib_xrcd *ibxrcd, struct ib_udata *udata);
int uroce_dealloc_xrcd(struct ib_xrcd *ibxrcd, struct ib_udata *udata);
int uroce_create_ah(struct ib_ah *ibah, struct rdma_ah_init_attr *init, struct ib_udata *udata);
int uroce_destroy_ah(struct ib_ah *ibah, u32 flags);

/* cq.c */
int uroce_create_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr, uroce_cq_arg *arg);
int uroce_resize_cq(struct ib_cq *ibcq, int cqe, struct ib_udata *udata);
int uroce_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata);
int uroce_poll_cq(struct ib_cq *ibcq, int count, struct ib_wc *wc);
int uroce_req_notify_cq(struct ib_cq *ibcq, enum ib_cq_notify_flags flags);
bool uroce_cq_push(struct uroce_cq *cq, const struct ib_wc *wc); /* false: no room */

/* qp.c */
int uroce_create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *init, struct ib_udata *udata);
int uroce_modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask, struct ib_udata *udata);
int uroce_query_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		   struct ib_qp_init_attr *init);
int uroce_destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata);
int uroce_attach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid);
int uroce_detach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid);

/* gsi.c: QP 1, which is the kernel's */
int uroce_gsi_create(struct uroce_device *dev, struct uroce_qp *qp,
		     const struct ib_qp_init_attr *init);
void uroce_gsi_destroy(struct uroce_device *dev, struct uroce_qp *qp);
int uroce_post_send(struct ib_qp *ibqp, const struct ib_send_wr *wr, const struct ib_send_wr **bad);
int uroce_post_recv(struct ib_qp *ibqp, const struct ib_recv_wr *wr, const struct ib_recv_wr **bad);
int uroce_gsi_deliver(struct uroce_device *dev,
		      const struct uroce_channel_mad *in); /* -ENOBUFS: dropped */

/* channel.c: without the file */
struct uroce_channel *
uroce_channel_open(struct uroce_net *net); /* takes over the reference; ERR_PTR: -EBUSY, -ENOMEM */
void uroce_channel_close(struct uroce_channel *channel);
void uroce_channel_set_ready(struct uroce_channel *channel, bool ready);
bool uroce_channel_push(struct uroce_net *net,
			const struct uroce_channel_mad *mad); /* false: dropped */
bool uroce_channel_pop(struct uroce_channel *channel, struct uroce_channel_mad *mad);
bool uroce_channel_has_input(struct uroce_channel *channel);
void uroce_channel_take_news(struct uroce_channel *channel, struct uroce_channel_news *news);
void uroce_channel_note_change(
	struct uroce_net *net); /* a link of the namespace is another than it was */
int uroce_channel_accept(struct uroce_channel *channel, const struct uroce_channel_mad *in);
int uroce_channel_describe(struct uroce_channel *channel, struct uroce_channel_device *out);

#endif
