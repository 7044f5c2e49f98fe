// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Protection domains: the engine in the program knows what they protect. */
#include "kmod-shim/module/uroce.h"

int uroce_alloc_pd(struct ib_pd *ibpd, struct ib_udata *udata)
{
	return uroce_take(uroce_dev(ibpd->device), UROCE_PD);
}

int uroce_dealloc_pd(struct ib_pd *ibpd, struct ib_udata *udata)
{
	uroce_give(uroce_dev(ibpd->device), UROCE_PD);
	return 0;
}
