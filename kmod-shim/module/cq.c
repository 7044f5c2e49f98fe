// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Completion queues: of programs only ids and sizes, since the engine fills them; of the kernel (QP
 * 1) real rings. */
#include <linux/slab.h>
#include <rdma/ib_user_verbs.h>

#include "kmod-shim/module/uroce.h"

#define UROCE_MAX_KERNEL_CQE 65536

static struct uroce_cq *to_cq(struct ib_cq *ibcq)
{
	return container_of(ibcq, struct uroce_cq, ibcq);
}

static int uroce_create_kernel_cq(struct uroce_cq *cq, const struct ib_cq_init_attr *attr)
{
	if (attr->cqe > UROCE_MAX_KERNEL_CQE)
		return -EINVAL;
	cq->ring = kvcalloc(attr->cqe, sizeof(*cq->ring), GFP_KERNEL);
	if (!cq->ring)
		return -ENOMEM;
	cq->size = attr->cqe;
	return 0;
}

static int uroce_create_user_cq(struct uroce_cq *cq, struct ib_udata *udata)
{
	struct uroce_context *context =
		rdma_udata_to_drv_context(udata, struct uroce_context, ibuc);
	struct uroce_create_cq_resp response = {};
	int err;

	if (udata->outlen < sizeof(response))
		return -EINVAL;
	err = xa_alloc_cyclic_irq(&context->cqs, &cq->id, cq, xa_limit_31b, &context->next_cq,
				  GFP_KERNEL_ACCOUNT);
	if (err < 0)
		return err == -EBUSY ? -ENOMEM : err;
	cq->context = context;
	response.cq_id = cq->id;
	err = ib_copy_to_udata(udata, &response, sizeof(response));
	if (err)
		xa_erase_irq(&context->cqs, cq->id);
	return err;
}

int uroce_create_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr, uroce_cq_arg *arg)
{
	struct uroce_device *dev = uroce_dev(ibcq->device);
	struct ib_udata *udata = uroce_cq_udata(arg);
	struct uroce_cq *cq = to_cq(ibcq);
	int err;

	if (attr->flags &
	    ~(IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION | IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN))
		return -EOPNOTSUPP;
	if (!attr->cqe || attr->cqe > UROCE_MAX_CQE || attr->comp_vector)
		return -EINVAL;
	err = uroce_take(dev, UROCE_CQ);
	if (err)
		return err;
	spin_lock_init(&cq->lock);
	ibcq->cqe = attr->cqe;
	err = udata ? uroce_create_user_cq(cq, udata) : uroce_create_kernel_cq(cq, attr);
	if (err)
		uroce_give(dev, UROCE_CQ);
	return err;
}

int uroce_resize_cq(struct ib_cq *ibcq, int cqe, struct ib_udata *udata)
{
	if (!udata)
		return -EOPNOTSUPP;
	if (cqe <= 0 || cqe > UROCE_MAX_CQE)
		return -EINVAL;
	ibcq->cqe = cqe;
	return 0;
}

int uroce_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata)
{
	struct uroce_cq *cq = to_cq(ibcq);

	if (cq->context)
		xa_erase_irq(&cq->context->cqs, cq->id);
	kvfree(cq->ring);
	uroce_give(uroce_dev(ibcq->device), UROCE_CQ);
	return 0;
}

/* From interrupts too: comp_handler of kernel CQs only queues work. */
bool uroce_cq_push(struct uroce_cq *cq, const struct ib_wc *wc)
{
	bool room, notify = false;
	unsigned long flags;

	spin_lock_irqsave(&cq->lock, flags);
	room = cq->used < cq->size;
	if (room) {
		cq->ring[(cq->head + cq->used++) % cq->size] = *wc;
		notify = cq->armed;
		cq->armed = false;
	}
	spin_unlock_irqrestore(&cq->lock, flags);
	if (notify)
		cq->ibcq.comp_handler(&cq->ibcq, cq->ibcq.cq_context);
	return room;
}

int uroce_poll_cq(struct ib_cq *ibcq, int count, struct ib_wc *wc)
{
	struct uroce_cq *cq = to_cq(ibcq);
	unsigned long flags;
	int taken = 0;

	spin_lock_irqsave(&cq->lock, flags);
	for (; taken < count && cq->used; taken++) {
		wc[taken] = cq->ring[cq->head];
		cq->head = (cq->head + 1) % cq->size;
		cq->used--;
	}
	spin_unlock_irqrestore(&cq->lock, flags);
	return taken;
}

int uroce_req_notify_cq(struct ib_cq *ibcq, enum ib_cq_notify_flags flags)
{
	struct uroce_cq *cq = to_cq(ibcq);
	unsigned long irq;
	int missed;

	spin_lock_irqsave(&cq->lock, irq);
	cq->armed = true;
	missed = (flags & IB_CQ_REPORT_MISSED_EVENTS) && cq->used;
	spin_unlock_irqrestore(&cq->lock, irq);
	return missed;
}
