/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What differs between kernels. Kbuild looks into the installed header and
 * defines UROCE_HAVE_*: distributions backport RDMA changes freely, so version
 * numbers say little.
 */
#ifndef UROCE_COMPAT_H
#define UROCE_COMPAT_H

#include <rdma/ib_verbs.h>
#include <rdma/uverbs_ioctl.h>

/* create_cq: the last argument became the whole bundle. */
#ifdef UROCE_HAVE_CQ_BUNDLE
typedef struct uverbs_attr_bundle uroce_cq_arg;
static inline struct ib_udata *uroce_cq_udata(uroce_cq_arg *arg)
{
	return arg ? &arg->driver_udata : NULL;
}
#else
typedef struct ib_udata uroce_cq_arg;
static inline struct ib_udata *uroce_cq_udata(uroce_cq_arg *arg)
{
	return arg;
}
#endif

/* reg_user_mr: a DMA handle in between. */
#ifdef UROCE_HAVE_DMAH
#define UROCE_DMAH_ARG struct ib_dmah *dmah,
#define UROCE_DMAH_GIVEN (dmah != NULL)
#else
#define UROCE_DMAH_ARG
#define UROCE_DMAH_GIVEN false
#endif

/* The name in a link command is the user's: udev must not change it. */
#ifdef UROCE_HAVE_NAME_ASSIGN
#define uroce_mark_name(ibdev) ib_mark_name_assigned_by_user(ibdev)
#else
#define uroce_mark_name(ibdev)
#endif

#endif
