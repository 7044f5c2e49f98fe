// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* An opened device. */
#include <net/net_namespace.h>
#include <linux/nsproxy.h>
#include <linux/sched.h>

#include "kmod-shim/module/uroce.h"

/* The program's sockets are of its own namespace; where the netdev is in another, there is no data
 * path. */
static bool uroce_is_reachable(struct uroce_device *dev)
{
	struct uroce_net *own = uroce_net_of(current->nsproxy->net_ns);
	bool same = own == dev->net;

	uroce_net_put(own);
	return same;
}

int uroce_alloc_ucontext(struct ib_ucontext *ibuc, struct ib_udata *udata)
{
	struct uroce_device *dev = uroce_dev(ibuc->device);
	struct uroce_context *context = uroce_ctx(ibuc);
	struct uroce_get_context_resp response = { .abi_version = UROCE_ABI_VERSION };
	int err;

	if (udata->outlen < sizeof(response))
		return -EINVAL;
	if (!uroce_is_reachable(dev))
		return -EPERM;
	context->slot = uroce_slot_take(dev->net, dev->ibdev.index);
	if (!context->slot)
		return -ENOMEM;
	xa_init_flags(&context->cqs, XA_FLAGS_ALLOC1 | XA_FLAGS_LOCK_IRQ);
	response.slot = context->slot->number;
	response.cookie = context->slot->cookie;
	err = ib_copy_to_udata(udata, &response, sizeof(response));
	if (err)
		uroce_dealloc_ucontext(ibuc);
	return err;
}

void uroce_dealloc_ucontext(struct ib_ucontext *ibuc)
{
	struct uroce_context *context = uroce_ctx(ibuc);

	WARN_ON(!xa_empty(&context->cqs));
	xa_destroy(&context->cqs);
	uroce_slot_end(context->slot);
	uroce_slot_put(context->slot);
}

/* There is nothing mapped that could be taken away; having this lets `rdma link del` and rmmod go
 * ahead while programs hold a context. */
void uroce_disassociate_ucontext(struct ib_ucontext *ibuc)
{
}
