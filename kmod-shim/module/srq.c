// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Shared receive queues: their numbers, which are the link's, and their limits. */
#include "kmod-shim/module/uroce.h"

#define UROCE_MAX_SRQ_NUMBER ((1 << 20) - 1)

static struct uroce_srq *to_srq(struct ib_srq *ibsrq)
{
	return container_of(ibsrq, struct uroce_srq, ibsrq);
}

static int uroce_number_srq(struct uroce_device *dev, struct uroce_srq *srq)
{
	const struct xa_limit limit = XA_LIMIT(1, UROCE_MAX_SRQ_NUMBER);
	int err;

	err = xa_alloc_cyclic_irq(&dev->srqs, &srq->number, srq, limit, &dev->next_srq,
				  GFP_KERNEL_ACCOUNT);
	if (err < 0)
		return err == -EBUSY ? -ENOMEM : err;
	return 0;
}

int uroce_create_srq(struct ib_srq *ibsrq, struct ib_srq_init_attr *init, struct ib_udata *udata)
{
	struct uroce_device *dev = uroce_dev(ibsrq->device);
	struct uroce_srq *srq = to_srq(ibsrq);
	struct uroce_create_srq_resp response = {};
	int err;

	if (!udata) /* a kernel user */
		return -EOPNOTSUPP;
	if (init->srq_type != IB_SRQT_BASIC && init->srq_type != IB_SRQT_XRC)
		return -EOPNOTSUPP;
	if (!init->attr.max_wr || init->attr.max_wr > UROCE_MAX_SRQ_WR ||
	    init->attr.max_sge > UROCE_MAX_SGE || init->attr.srq_limit > init->attr.max_wr ||
	    udata->outlen < sizeof(response))
		return -EINVAL;
	err = uroce_take(dev, UROCE_SRQ);
	if (err)
		return err;
	srq->attr = init->attr;
	srq->context = rdma_udata_to_drv_context(udata, struct uroce_context, ibuc);
	err = uroce_number_srq(dev, srq);
	if (err)
		goto err_count;
	if (init->srq_type == IB_SRQT_XRC)
		ibsrq->ext.xrc.srq_num = srq->number;
	response.srq_number = srq->number;
	err = ib_copy_to_udata(udata, &response, sizeof(response));
	if (err)
		goto err_number;
	return 0;

err_number:
	xa_erase_irq(&dev->srqs, srq->number);
err_count:
	uroce_give(dev, UROCE_SRQ);
	return err;
}

int uroce_modify_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr, enum ib_srq_attr_mask mask,
		     struct ib_udata *udata)
{
	struct uroce_srq *srq = to_srq(ibsrq);
	struct ib_srq_attr next = srq->attr;

	if (mask & ~(IB_SRQ_MAX_WR | IB_SRQ_LIMIT))
		return -EINVAL;
	if (mask & IB_SRQ_MAX_WR)
		next.max_wr = attr->max_wr;
	if (mask & IB_SRQ_LIMIT)
		next.srq_limit = attr->srq_limit;
	if (!next.max_wr || next.max_wr > UROCE_MAX_SRQ_WR || next.srq_limit > next.max_wr)
		return -EINVAL;
	srq->attr = next;
	return 0;
}

int uroce_query_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr)
{
	*attr = to_srq(ibsrq)->attr;
	return 0;
}

int uroce_destroy_srq(struct ib_srq *ibsrq, struct ib_udata *udata)
{
	struct uroce_device *dev = uroce_dev(ibsrq->device);

	xa_erase_irq(&dev->srqs, to_srq(ibsrq)->number);
	uroce_give(dev, UROCE_SRQ);
	return 0;
}
