// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * XRC domains. A target QP is made without a word about its context, so the domain
 * remembers the slot of the context that opened it first.
 */
#include "kmod-shim/module/uroce.h"

int uroce_alloc_xrcd(struct ib_xrcd *ibxrcd, struct ib_udata *udata)
{
	struct uroce_xrcd *xrcd = container_of(ibxrcd, struct uroce_xrcd, ibxrcd);
	struct uroce_context *context =
		rdma_udata_to_drv_context(udata, struct uroce_context, ibuc);
	int err;

	if (!context) /* a kernel user */
		return -EOPNOTSUPP;
	err = uroce_take(uroce_dev(ibxrcd->device), UROCE_XRCD);
	if (!err)
		xrcd->slot = uroce_slot_get(context->slot);
	return err;
}

int uroce_dealloc_xrcd(struct ib_xrcd *ibxrcd, struct ib_udata *udata)
{
	uroce_slot_put(container_of(ibxrcd, struct uroce_xrcd, ibxrcd)->slot);
	uroce_give(uroce_dev(ibxrcd->device), UROCE_XRCD);
	return 0;
}
