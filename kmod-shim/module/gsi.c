// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * QP 1 belongs to the kernel's MAD layer. What it sends goes into the channel to
 * uroced, what uroced writes there is received by it. No retransmission: that is
 * the communication manager's.
 */
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/slab.h>
#include <net/ip.h>
#include <rdma/ib_mad.h>

#include "kmod-shim/module/uroce.h"

#define UROCE_GSI_MAX_WR 4096
#define UROCE_GSI_SGE 2
#define UROCE_GSI_QKEY 0x80010000

static struct uroce_qp *to_qp(struct ib_qp *ibqp)
{
	return container_of(ibqp, struct uroce_qp, ibqp);
}

static struct uroce_cq *to_cq(struct ib_cq *ibcq)
{
	return container_of(ibcq, struct uroce_cq, ibcq);
}

int uroce_gsi_create(struct uroce_device *dev, struct uroce_qp *qp,
		     const struct ib_qp_init_attr *init)
{
	if (!init->cap.max_recv_wr || init->cap.max_recv_wr > UROCE_GSI_MAX_WR || init->srq ||
	    init->cap.max_send_sge > UROCE_GSI_SGE || init->cap.max_recv_sge > 1)
		return -EINVAL;
	if (dev->gsi)
		return -EBUSY;
	qp->receives = kvcalloc(init->cap.max_recv_wr, sizeof(*qp->receives), GFP_KERNEL);
	if (!qp->receives)
		return -ENOMEM;
	qp->size = init->cap.max_recv_wr;
	qp->ibqp.qp_num = 1;
	spin_lock_irq(&dev->gsi_lock);
	dev->gsi = qp;
	spin_unlock_irq(&dev->gsi_lock);
	return 0;
}

/* ib_mad frees its buffers itself: nothing is flushed. */
void uroce_gsi_destroy(struct uroce_device *dev, struct uroce_qp *qp)
{
	spin_lock_irq(&dev->gsi_lock);
	dev->gsi = NULL;
	spin_unlock_irq(&dev->gsi_lock);
	kvfree(qp->receives);
}

/* With virtual DMA an address is a pointer. */
static void *uroce_pointer(u64 address)
{
	return (void *)(uintptr_t)address;
}

static int uroce_gather(const struct ib_send_wr *wr, u8 *mad)
{
	u32 used = 0;
	int i;

	if (wr->opcode != IB_WR_SEND || wr->num_sge > UROCE_GSI_SGE)
		return -EINVAL;
	for (i = 0; i < wr->num_sge; i++) {
		if (wr->sg_list[i].length > UROCE_CHANNEL_MAD_BYTES - used)
			return -EINVAL;
		memcpy(mad + used, uroce_pointer(wr->sg_list[i].addr), wr->sg_list[i].length);
		used += wr->sg_list[i].length;
	}
	return used == UROCE_CHANNEL_MAD_BYTES ? 0 : -EINVAL;
}

static int uroce_send_one(struct uroce_device *dev, struct uroce_qp *qp,
			  const struct ib_send_wr *wr)
{
	const struct ib_ud_wr *ud = ud_wr(wr);
	const struct uroce_route *route = &container_of(ud->ah, struct uroce_ah, ibah)->route;
	struct uroce_channel_mad out = {
		.device = dev->ibdev.index,
		.ifindex = route->ifindex,
		.local_qpn = 1,
		.remote_qpn = ud->remote_qpn,
		/* IBA 10.2.5: with the top bit set it is the QP's own key that is sent. */
		.qkey = ud->remote_qkey & 0x80000000 ? UROCE_GSI_QKEY : ud->remote_qkey,
		.flow_label = route->flow_label,
		.traffic_class = route->traffic_class,
		.hop_limit = route->hop_limit,
	};
	struct ib_wc wc = {
		.wr_cqe = wr->wr_cqe,
		.qp = &qp->ibqp,
		.opcode = IB_WC_SEND,
		.status = IB_WC_SUCCESS,
	};
	int err = uroce_gather(wr, out.mad);

	if (err)
		return err;
	memcpy(out.local, route->local.raw, sizeof(out.local));
	memcpy(out.remote, route->remote.raw, sizeof(out.remote));
	/*
	 * Without uroced nothing leaves, which whoever sends is told at once. A
	 * full queue is a lost packet.
	 */
	if (!READ_ONCE(dev->net->ready))
		wc.status = IB_WC_GENERAL_ERR;
	else
		uroce_channel_push(dev->net, &out);
	return uroce_cq_push(to_cq(qp->ibqp.send_cq), &wc) ? 0 : -ENOMEM;
}

/* ib_mad calls with a spinlock held and interrupts off. */
int uroce_post_send(struct ib_qp *ibqp, const struct ib_send_wr *wr, const struct ib_send_wr **bad)
{
	int err = 0;

	if (ibqp->qp_type != IB_QPT_GSI)
		err = -EOPNOTSUPP;
	for (; wr && !err; wr = err ? wr : wr->next)
		err = uroce_send_one(uroce_dev(ibqp->device), to_qp(ibqp), wr);
	if (err)
		*bad = wr;
	return err;
}

static int uroce_receive_one(struct uroce_qp *qp, const struct ib_recv_wr *wr)
{
	struct uroce_receive *receive;

	if (wr->num_sge != 1)
		return -EINVAL;
	if (qp->used == qp->size)
		return -ENOMEM;
	receive = &qp->receives[(qp->head + qp->used++) % qp->size];
	receive->cqe = wr->wr_cqe;
	receive->buffer = uroce_pointer(wr->sg_list[0].addr);
	receive->length = wr->sg_list[0].length;
	return 0;
}

int uroce_post_recv(struct ib_qp *ibqp, const struct ib_recv_wr *wr, const struct ib_recv_wr **bad)
{
	struct uroce_device *dev = uroce_dev(ibqp->device);
	unsigned long flags;
	int err = 0;

	if (ibqp->qp_type != IB_QPT_GSI)
		err = -EOPNOTSUPP;
	spin_lock_irqsave(&dev->gsi_lock, flags);
	for (; wr && !err; wr = err ? wr : wr->next)
		err = uroce_receive_one(to_qp(ibqp), wr);
	spin_unlock_irqrestore(&dev->gsi_lock, flags);
	if (err)
		*bad = wr;
	return err;
}

/* 40 bytes before each datagram: an IPv6 header, or 20 bytes of nothing and an IPv4 header. */
static void uroce_write_grh(const struct uroce_channel_mad *in, bool ipv4, u8 *grh)
{
	const u16 payload =
		8 + 12 + 8 + UROCE_CHANNEL_MAD_BYTES + 4; /* UDP, BTH, DETH, MAD, ICRC */

	memset(grh, 0, sizeof(struct ib_grh));
	if (ipv4) {
		struct iphdr *ip = (struct iphdr *)(grh + 20);

		ip->version = 4;
		ip->ihl = 5;
		ip->tos = in->traffic_class;
		ip->tot_len = htons(sizeof(*ip) + payload);
		ip->frag_off = htons(IP_DF);
		ip->ttl = in->hop_limit;
		ip->protocol = IPPROTO_UDP;
		memcpy(&ip->saddr, in->remote + 12, 4);
		memcpy(&ip->daddr, in->local + 12, 4);
		ip->check = ip_fast_csum(ip, ip->ihl);
	} else {
		struct ipv6hdr *ip = (struct ipv6hdr *)grh;

		ip->version = 6;
		ip->priority = in->traffic_class >> 4;
		ip->flow_lbl[0] = (in->traffic_class & 0xf) << 4 | ((in->flow_label >> 16) & 0xf);
		ip->flow_lbl[1] = in->flow_label >> 8;
		ip->flow_lbl[2] = in->flow_label;
		ip->payload_len = htons(payload);
		ip->nexthdr = IPPROTO_UDP;
		ip->hop_limit = in->hop_limit;
		memcpy(&ip->saddr, in->remote, sizeof(ip->saddr));
		memcpy(&ip->daddr, in->local, sizeof(ip->daddr));
	}
}

static int uroce_receive(struct uroce_qp *qp, const struct uroce_channel_mad *in,
			 const struct uroce_gid *gid)
{
	bool ipv4 = ipv6_addr_v4mapped((const struct in6_addr *)in->local);
	struct uroce_receive *receive = &qp->receives[qp->head];
	struct ib_wc wc = {
		.qp = &qp->ibqp,
		.status = IB_WC_SUCCESS,
		.opcode = IB_WC_RECV,
		.byte_len = sizeof(struct ib_grh) + UROCE_CHANNEL_MAD_BYTES,
		.src_qp = in->remote_qpn,
		.port_num = 1,
		.wc_flags = IB_WC_GRH | IB_WC_WITH_NETWORK_HDR_TYPE,
		.network_hdr_type = ipv4 ? RDMA_NETWORK_IPV4 : RDMA_NETWORK_IPV6,
	};

	if (!qp->used || receive->length < wc.byte_len)
		return -ENOBUFS;
	if (gid->vlan != UROCE_NO_VLAN) {
		wc.wc_flags |= IB_WC_WITH_VLAN;
		wc.vlan_id = gid->vlan;
	}
	wc.wr_cqe = receive->cqe;
	uroce_write_grh(in, ipv4, receive->buffer);
	memcpy((u8 *)receive->buffer + sizeof(struct ib_grh), in->mad, UROCE_CHANNEL_MAD_BYTES);
	if (!uroce_cq_push(to_cq(qp->ibqp.recv_cq), &wc))
		return -ENOBUFS;
	qp->head = (qp->head + 1) % qp->size;
	qp->used--;
	return 0;
}

/* The writer is trusted with nothing but the peer's address: the GID must be the link's, its
 * namespace the writer's. */
int uroce_gsi_deliver(struct uroce_device *dev, const struct uroce_channel_mad *in)
{
	const struct in6_addr *local = (const struct in6_addr *)in->local;
	const struct in6_addr *remote = (const struct in6_addr *)in->remote;
	struct uroce_gid gid;
	unsigned long flags;
	int err = -ENOBUFS;

	if (in->local_qpn != 1 || in->remote_qpn > 0xffffff || in->qkey || in->flow_label > 0xfffff)
		return -EINVAL;
	if (ipv6_addr_v4mapped(local) != ipv6_addr_v4mapped(remote) || ipv6_addr_any(remote) ||
	    ipv6_addr_is_multicast(remote))
		return -EINVAL;
	if (!uroce_find_gid(dev, (const union ib_gid *)in->local, in->ifindex, &gid))
		return -EADDRNOTAVAIL;
	spin_lock_irqsave(&dev->gsi_lock, flags);
	if (dev->gsi)
		err = uroce_receive(dev->gsi, in, &gid);
	spin_unlock_irqrestore(&dev->gsi_lock, flags);
	return err;
}
