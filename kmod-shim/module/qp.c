// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Queue pairs: their numbers, and the attributes for QUERY_QP and `rdma
 * resource`. The engine in the program has the table of transitions and is asked
 * first; here values are checked for range and kept.
 */
#include "kmod-shim/module/uroce.h"

static struct uroce_qp *to_qp(struct ib_qp *ibqp)
{
	return container_of(ibqp, struct uroce_qp, ibqp);
}

static bool uroce_is_within_limits(const struct ib_qp_cap *cap)
{
	return cap->max_send_wr <= UROCE_MAX_QP_WR && cap->max_recv_wr <= UROCE_MAX_QP_WR &&
	       cap->max_send_sge <= UROCE_MAX_SGE && cap->max_recv_sge <= UROCE_MAX_SGE &&
	       cap->max_inline_data <= UROCE_MAX_INLINE;
}

/* The data path that the QP belongs to; target QPs are made without `udata`. */
static struct uroce_slot *uroce_slot_of(const struct ib_qp_init_attr *init, struct ib_udata *udata)
{
	struct uroce_context *context;

	switch (init->qp_type) {
	case IB_QPT_RC:
	case IB_QPT_UC:
	case IB_QPT_UD:
	case IB_QPT_XRC_INI:
		if (!udata) /* a kernel user */
			return ERR_PTR(-EOPNOTSUPP);
		context = rdma_udata_to_drv_context(udata, struct uroce_context, ibuc);
		return context->slot;
	case IB_QPT_XRC_TGT:
		return container_of(init->xrcd, struct uroce_xrcd, ibxrcd)->slot;
	default:
		return ERR_PTR(-EOPNOTSUPP);
	}
}

static void uroce_keep_init(struct uroce_qp *qp, struct ib_qp_init_attr *init)
{
	bool receives =
		init->qp_type != IB_QPT_XRC_INI && init->qp_type != IB_QPT_XRC_TGT && !init->srq;

	if (!receives) {
		init->cap.max_recv_wr = 0;
		init->cap.max_recv_sge = 0;
	}
	if (init->qp_type == IB_QPT_XRC_TGT) {
		init->cap.max_send_wr = 0;
		init->cap.max_send_sge = 0;
		init->cap.max_inline_data = 0;
	}
	qp->init.cap = init->cap;
	qp->init.sq_sig_type = init->sq_sig_type;
	qp->init.qp_type = init->qp_type;
	qp->attr.cap = init->cap;
	qp->attr.qp_state = IB_QPS_RESET;
	qp->attr.cur_qp_state = IB_QPS_RESET;
	qp->attr.path_mtu = IB_MTU_256;
}

int uroce_create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *init, struct ib_udata *udata)
{
	struct uroce_qp *qp = to_qp(ibqp);
	struct uroce_slot *slot;

	if (init->create_flags || init->rwq_ind_tbl || init->source_qpn)
		return -EOPNOTSUPP;
	if (init->qp_type == IB_QPT_GSI && !udata) {
		uroce_keep_init(qp, init);
		return uroce_gsi_create(uroce_dev(ibqp->device), qp, init);
	}
	slot = uroce_slot_of(init, udata);
	if (IS_ERR(slot))
		return PTR_ERR(slot);
	if (!uroce_is_within_limits(&init->cap))
		return -EINVAL;
	uroce_keep_init(qp, init);
	/* ib_core completes a target QP after this call: until it is used there is nobody to kick.
	 */
	return uroce_slot_add_qp(slot, qp, init->qp_type != IB_QPT_XRC_TGT);
}

int uroce_destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata)
{
	struct uroce_qp *qp = to_qp(ibqp);

	if (qp->slot)
		uroce_slot_remove_qp(qp->slot, qp);
	else
		uroce_gsi_destroy(uroce_dev(ibqp->device), qp);
	return 0;
}

static bool uroce_is_in_range(const struct ib_qp_attr *attr, int mask)
{
	const struct ib_global_route *grh = rdma_ah_read_grh(&attr->ah_attr);

	if ((mask & IB_QP_STATE) && attr->qp_state > IB_QPS_ERR)
		return false;
	if ((mask & IB_QP_CUR_STATE) && attr->cur_qp_state > IB_QPS_ERR)
		return false;
	if ((mask & IB_QP_PORT) && attr->port_num != 1)
		return false;
	if ((mask & IB_QP_PKEY_INDEX) && attr->pkey_index)
		return false;
	if ((mask & IB_QP_PATH_MTU) &&
	    (attr->path_mtu < IB_MTU_256 || attr->path_mtu > IB_MTU_4096))
		return false;
	if ((mask & IB_QP_TIMEOUT) && attr->timeout > 31)
		return false;
	if ((mask & IB_QP_MIN_RNR_TIMER) && attr->min_rnr_timer > 31)
		return false;
	if ((mask & IB_QP_RETRY_CNT) && attr->retry_cnt > 7)
		return false;
	if ((mask & IB_QP_RNR_RETRY) && attr->rnr_retry > 7)
		return false;
	if ((mask & IB_QP_MAX_QP_RD_ATOMIC) && attr->max_rd_atomic > UROCE_MAX_RD_ATOMIC)
		return false;
	if ((mask & IB_QP_MAX_DEST_RD_ATOMIC) && attr->max_dest_rd_atomic > UROCE_MAX_RD_ATOMIC)
		return false;
	if ((mask & IB_QP_DEST_QPN) && attr->dest_qp_num > 0xffffff)
		return false;
	/* RoCE has no other way than by GIDs. */
	if (mask & IB_QP_AV)
		return (rdma_ah_get_ah_flags(&attr->ah_attr) & IB_AH_GRH) &&
		       grh->sgid_index < UROCE_GID_TABLE_LEN;
	return true;
}

static void uroce_keep_attr(struct uroce_qp *qp, const struct ib_qp_attr *attr, int mask)
{
	struct ib_qp_attr *to = &qp->attr;

	if ((mask & IB_QP_STATE) && attr->qp_state == IB_QPS_RESET) {
		*to = (struct ib_qp_attr){ .cap = qp->init.cap, .path_mtu = IB_MTU_256 };
		return;
	}
	if (mask & IB_QP_STATE)
		to->qp_state = to->cur_qp_state = attr->qp_state;
	if (mask & IB_QP_ACCESS_FLAGS)
		to->qp_access_flags = attr->qp_access_flags;
	if (mask & IB_QP_PKEY_INDEX)
		to->pkey_index = attr->pkey_index;
	if (mask & IB_QP_PORT)
		to->port_num = attr->port_num;
	if (mask & IB_QP_QKEY)
		to->qkey = attr->qkey;
	if (mask & IB_QP_AV) {
		to->ah_attr = attr->ah_attr;
		to->ah_attr.grh.sgid_attr = NULL; /* ib_core holds it, for the QP */
	}
	if (mask & IB_QP_PATH_MTU)
		to->path_mtu = attr->path_mtu;
	if (mask & IB_QP_TIMEOUT)
		to->timeout = attr->timeout;
	if (mask & IB_QP_RETRY_CNT)
		to->retry_cnt = attr->retry_cnt;
	if (mask & IB_QP_RNR_RETRY)
		to->rnr_retry = attr->rnr_retry;
	if (mask & IB_QP_RQ_PSN)
		to->rq_psn = attr->rq_psn & 0xffffff;
	if (mask & IB_QP_SQ_PSN)
		to->sq_psn = attr->sq_psn & 0xffffff;
	if (mask & IB_QP_MAX_QP_RD_ATOMIC)
		to->max_rd_atomic = attr->max_rd_atomic;
	if (mask & IB_QP_MAX_DEST_RD_ATOMIC)
		to->max_dest_rd_atomic = attr->max_dest_rd_atomic;
	if (mask & IB_QP_MIN_RNR_TIMER)
		to->min_rnr_timer = attr->min_rnr_timer;
	if (mask & IB_QP_DEST_QPN)
		to->dest_qp_num = attr->dest_qp_num;
}

int uroce_modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask, struct ib_udata *udata)
{
	struct uroce_qp *qp = to_qp(ibqp);
	int err;

	/* No other sizes than those it was made with, no second path, no pacing. */
	if (mask & (IB_QP_CAP | IB_QP_ALT_PATH | IB_QP_PATH_MIG_STATE | ~IB_QP_ATTR_STANDARD_BITS))
		return -EOPNOTSUPP;
	if (!uroce_is_in_range(attr, mask))
		return -EINVAL;
	if (ibqp->qp_type == IB_QPT_XRC_TGT) {
		err = xa_err(xa_store_irq(&qp->slot->qps, qp->index, qp, GFP_KERNEL));
		if (err)
			return err;
	}
	uroce_keep_attr(qp, attr, mask);
	return 0;
}

int uroce_query_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		   struct ib_qp_init_attr *init)
{
	struct uroce_qp *qp = to_qp(ibqp);

	*attr = qp->attr;
	init->cap = qp->init.cap;
	init->sq_sig_type = qp->init.sq_sig_type;
	init->qp_type = qp->init.qp_type;
	init->send_cq = ibqp->send_cq;
	init->recv_cq = ibqp->recv_cq;
	init->srq = ibqp->srq;
	init->port_num = 1;
	return 0;
}

/* The membership itself is made by the process, on its own sockets. */
int uroce_attach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid)
{
	if (gid->raw[0] != 0xff || ibqp->qp_type != IB_QPT_UD)
		return -EINVAL;
	return uroce_take(uroce_dev(ibqp->device), UROCE_MCAST);
}

int uroce_detach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid)
{
	uroce_give(uroce_dev(ibqp->device), UROCE_MCAST);
	return 0;
}
