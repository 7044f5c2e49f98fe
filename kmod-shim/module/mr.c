// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Memory regions and windows: their keys. Nothing is pinned and no page is looked
 * at, because the engine that reaches the memory runs in the program itself.
 * Keys are index(24) | variant(8); the indices stay below 2^20, which is what the
 * engine's table is made for.
 */
#include <linux/slab.h>

#include "kmod-shim/module/uroce.h"

#define UROCE_MAX_KEY_INDEX ((1 << 20) - 1)

static int uroce_take_key(struct uroce_device *dev, void *owner, u32 *key)
{
	const struct xa_limit limit = XA_LIMIT(1, UROCE_MAX_KEY_INDEX);
	u32 index;
	int err;

	err = xa_alloc_cyclic(&dev->keys, &index, owner, limit, &dev->next_key, GFP_KERNEL_ACCOUNT);
	if (err < 0)
		return err == -EBUSY ? -ENOMEM : err;
	/* Indices come back after a million of them, and then with another variant. */
	if (err > 0)
		WRITE_ONCE(dev->variant, READ_ONCE(dev->variant) + 1);
	*key = index << 8 | READ_ONCE(dev->variant);
	return 0;
}

static void uroce_give_key(struct uroce_device *dev, u32 key)
{
	xa_erase(&dev->keys, key >> 8);
}

/* Who has the local_dma_lkey does not ask for this. */
struct ib_mr *uroce_get_dma_mr(struct ib_pd *ibpd, int access)
{
	return ERR_PTR(-EOPNOTSUPP);
}

static int uroce_check_region(u64 start, u64 length)
{
	u64 end;

	/* Implicit on-demand paging covers all there is: start 0, length ~0. */
	return check_add_overflow(start, length, &end) ? -EINVAL : 0;
}

struct ib_mr *uroce_reg_user_mr(struct ib_pd *ibpd, u64 start, u64 length, u64 iova, int access,
				UROCE_DMAH_ARG struct ib_udata *udata)
{
	struct uroce_device *dev = uroce_dev(ibpd->device);
	struct uroce_mr *mr;
	int err;

	if (UROCE_DMAH_GIVEN)
		return ERR_PTR(-EOPNOTSUPP);
	err = uroce_check_region(start, length);
	if (!err)
		err = uroce_check_region(iova, length);
	if (err)
		return ERR_PTR(err);
	err = uroce_take(dev, UROCE_MR);
	if (err)
		return ERR_PTR(err);
	mr = kzalloc(sizeof(*mr), GFP_KERNEL_ACCOUNT);
	if (!mr) {
		err = -ENOMEM;
		goto err_count;
	}
	err = uroce_take_key(dev, mr, &mr->ibmr.lkey);
	if (err)
		goto err_free;
	mr->ibmr.rkey = mr->ibmr.lkey;
	mr->ibmr.length = length;
	mr->ibmr.iova = iova;
	return &mr->ibmr;

err_free:
	kfree(mr);
err_count:
	uroce_give(dev, UROCE_MR);
	return ERR_PTR(err);
}

/* The key stays: it is the same region, and peers hold it. ib_uverbs keeps the rest. */
struct ib_mr *uroce_rereg_user_mr(struct ib_mr *ibmr, int flags, u64 start, u64 length, u64 iova,
				  int access, struct ib_pd *ibpd, struct ib_udata *udata)
{
	int err = 0;

	if (flags & IB_MR_REREG_TRANS) {
		err = uroce_check_region(start, length);
		if (!err)
			err = uroce_check_region(iova, length);
	}
	return ERR_PTR(err);
}

int uroce_dereg_mr(struct ib_mr *ibmr, struct ib_udata *udata)
{
	struct uroce_device *dev = uroce_dev(ibmr->device);

	uroce_give_key(dev, ibmr->lkey);
	uroce_give(dev, UROCE_MR);
	kfree(container_of(ibmr, struct uroce_mr, ibmr));
	return 0;
}

int uroce_alloc_mw(struct ib_mw *ibmw, struct ib_udata *udata)
{
	struct uroce_device *dev = uroce_dev(ibmw->device);
	int err = uroce_take(dev, UROCE_MW);

	if (err)
		return err;
	err = uroce_take_key(dev, ibmw, &ibmw->rkey);
	if (err)
		uroce_give(dev, UROCE_MW);
	return err;
}

int uroce_dealloc_mw(struct ib_mw *ibmw)
{
	struct uroce_device *dev = uroce_dev(ibmw->device);

	uroce_give_key(dev, ibmw->rkey);
	uroce_give(dev, UROCE_MW);
	return 0;
}
