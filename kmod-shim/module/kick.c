// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The kick: how the data path in the program wakes a completion channel or raises
 * an asynchronous event. A write command of our own on a number that the kernel
 * leaves unused, so that it can be sent both by write() and by INVOKE_WRITE. A
 * context can kick its own objects only.
 */
#include <rdma/ib_user_verbs.h>
#include <rdma/uverbs_ioctl.h>
#include <rdma/uverbs_std_types.h>

#include "kmod-shim/module/uroce.h"

static bool uroce_event_fits(const struct uroce_kick *kick)
{
	switch (kick->kind) {
	case UROCE_KICK_CQ_EVENT:
		return kick->event_type == IB_EVENT_CQ_ERR;
	case UROCE_KICK_QP_EVENT:
		switch (kick->event_type) {
		case IB_EVENT_QP_FATAL:
		case IB_EVENT_QP_REQ_ERR:
		case IB_EVENT_QP_ACCESS_ERR:
		case IB_EVENT_COMM_EST:
		case IB_EVENT_SQ_DRAINED:
		case IB_EVENT_QP_LAST_WQE_REACHED:
			return true;
		}
		return false;
	case UROCE_KICK_SRQ_EVENT:
		return kick->event_type == IB_EVENT_SRQ_ERR ||
		       kick->event_type == IB_EVENT_SRQ_LIMIT_REACHED;
	}
	return false;
}

/* The lock of the table is held over the call, so that an object's end waits for it. */
static int uroce_kick_cq(struct uroce_context *context, const struct uroce_kick *kick)
{
	struct ib_event event = { .device = context->ibuc.device, .event = kick->event_type };
	struct uroce_cq *cq;
	unsigned long flags;

	xa_lock_irqsave(&context->cqs, flags);
	cq = xa_load(&context->cqs, kick->id);
	if (cq && kick->kind == UROCE_KICK_COMPLETION) {
		cq->ibcq.comp_handler(&cq->ibcq, cq->ibcq.cq_context);
	} else if (cq) {
		event.element.cq = &cq->ibcq;
		cq->ibcq.event_handler(&event, cq->ibcq.cq_context);
	}
	xa_unlock_irqrestore(&context->cqs, flags);
	return cq ? 0 : -EINVAL;
}

static int uroce_kick_qp(struct uroce_context *context, const struct uroce_kick *kick)
{
	struct ib_event event = { .device = context->ibuc.device, .event = kick->event_type };
	struct uroce_slot *slot = context->slot;
	struct uroce_qp *qp;
	unsigned long flags;

	if (kick->id >> UROCE_INDEX_BITS != slot->number)
		return -EINVAL;
	xa_lock_irqsave(&slot->qps, flags);
	qp = xa_load(&slot->qps, kick->id & ((1 << UROCE_INDEX_BITS) - 1));
	if (qp && qp->ibqp.event_handler) {
		event.element.qp = &qp->ibqp;
		qp->ibqp.event_handler(&event, qp->ibqp.qp_context);
	}
	xa_unlock_irqrestore(&slot->qps, flags);
	return qp ? 0 : -EINVAL;
}

static int uroce_kick_srq(struct uroce_context *context, const struct uroce_kick *kick)
{
	struct ib_event event = { .device = context->ibuc.device, .event = kick->event_type };
	struct xarray *srqs = &uroce_dev(context->ibuc.device)->srqs;
	struct uroce_srq *srq;
	unsigned long flags;

	xa_lock_irqsave(srqs, flags);
	srq = xa_load(srqs, kick->id);
	if (srq && srq->context != context)
		srq = NULL;
	if (srq && srq->ibsrq.event_handler) {
		event.element.srq = &srq->ibsrq;
		srq->ibsrq.event_handler(&event, srq->ibsrq.srq_context);
	}
	xa_unlock_irqrestore(srqs, flags);
	return srq ? 0 : -EINVAL;
}

int uroce_kick_one(struct uroce_context *context, const struct uroce_kick *kick)
{
	if (kick->reserved)
		return -EINVAL;
	switch (kick->kind) {
	case UROCE_KICK_COMPLETION:
		return uroce_kick_cq(context, kick);
	case UROCE_KICK_CQ_EVENT:
		return uroce_event_fits(kick) ? uroce_kick_cq(context, kick) : -EINVAL;
	case UROCE_KICK_QP_EVENT:
		return uroce_event_fits(kick) ? uroce_kick_qp(context, kick) : -EINVAL;
	case UROCE_KICK_SRQ_EVENT:
		return uroce_event_fits(kick) ? uroce_kick_srq(context, kick) : -EINVAL;
	case UROCE_KICK_DEVICE_FATAL:
		/*
		 * A context's own end cannot be told to it alone: ib_uverbs has
		 * no such call. When uroced dies the whole link is told, when
		 * the channel closes.
		 */
		return -EOPNOTSUPP;
	}
	return -EINVAL;
}

/* ib_uverbs holds what keeps the context, and with it the link, alive during the call. */
static int uroce_kick_command(struct uverbs_attr_bundle *attrs)
{
	struct ib_ucontext *ibuc = ib_uverbs_get_ucontext_file(attrs->ufile);
	struct uroce_kick kick;
	int err;

	if (IS_ERR(ibuc))
		return PTR_ERR(ibuc);
	if (attrs->ucore.inlen != sizeof(kick))
		return -EINVAL;
	err = ib_copy_from_udata(&kick, &attrs->ucore, sizeof(kick));
	return err ? err : uroce_kick_one(uroce_ctx(ibuc), &kick);
}

/* The macro that fills in request sizes is private to ib_uverbs. */
const struct uapi_definition uroce_uapi[] = {
	{
		.kind = UAPI_DEF_OBJECT_START,
		.object_start = { .object_id = UVERBS_OBJECT_CQ },
	},
	{
		.kind = UAPI_DEF_WRITE,
		.scope = UAPI_SCOPE_OBJECT,
		.write = {
			.command_num = IB_USER_VERBS_CMD_PEEK_CQ,
			.req_size = sizeof(struct uroce_kick),
		},
		.func_write = uroce_kick_command,
	},
	{},
};
