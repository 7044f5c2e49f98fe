// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Slots: the top bits of QPNs, one per opened context, unique in a network
 * namespace, because there packets are steered by them. An ended slot is given
 * away again only after uroced has released it: a process may still be able to
 * read the socket behind it. Without a channel there are no such sockets.
 */
#include <linux/bitmap.h>
#include <linux/random.h>
#include <linux/slab.h>

#include "kmod-shim/module/uroce.h"

struct uroce_slot *uroce_slot_take(struct uroce_net *net, u32 device)
{
	struct uroce_slot *slot = kzalloc(sizeof(*slot), GFP_KERNEL_ACCOUNT);
	unsigned long flags;
	u32 number;

	if (!slot)
		return NULL;
	kref_init(&slot->ref);
	xa_init_flags(&slot->qps, XA_FLAGS_ALLOC | XA_FLAGS_LOCK_IRQ);
	slot->cookie = get_random_u64();
	slot->device = device;
	slot->owner = get_task_pid(current, PIDTYPE_TGID);
	slot->net = net;

	spin_lock_irqsave(&net->lock, flags);
	number = find_next_zero_bit(net->taken, UROCE_SLOT_LAST + 1, UROCE_SLOT_FIRST);
	if (number <= UROCE_SLOT_LAST) {
		slot->number = number;
		__set_bit(number, net->taken);
		net->slots[number] = slot;
		kref_get(&net->ref);
	}
	spin_unlock_irqrestore(&net->lock, flags);
	if (number > UROCE_SLOT_LAST) {
		put_pid(slot->owner);
		kfree(slot);
		return NULL;
	}
	return slot;
}

struct uroce_slot *uroce_slot_get(struct uroce_slot *slot)
{
	kref_get(&slot->ref);
	return slot;
}

/* From here on uroced is told that it is nobody's. */
void uroce_slot_end(struct uroce_slot *slot)
{
	struct uroce_net *net = slot->net;
	unsigned long flags;

	spin_lock_irqsave(&net->lock, flags);
	net->slots[slot->number] = NULL;
	spin_unlock_irqrestore(&net->lock, flags);
}

static void uroce_slot_free(struct kref *ref)
{
	struct uroce_slot *slot = container_of(ref, struct uroce_slot, ref);
	struct uroce_net *net = slot->net;
	unsigned long flags;

	spin_lock_irqsave(&net->lock, flags);
	net->slots[slot->number] = NULL;
	if (net->channel) {
		__set_bit(slot->number, net->ended);
		wake_up(&net->channel->wait);
	} else {
		__clear_bit(slot->number, net->taken);
	}
	spin_unlock_irqrestore(&net->lock, flags);
	xa_destroy(&slot->qps);
	put_pid(slot->owner);
	uroce_net_put(net);
	kfree(slot);
}

void uroce_slot_put(struct uroce_slot *slot)
{
	kref_put(&slot->ref, uroce_slot_free);
}

/* For uroced: is this the slot's owner? */
int uroce_slot_find(struct uroce_net *net, struct uroce_channel_slot *asked)
{
	struct uroce_slot *slot;
	unsigned long flags;
	int err = 0;

	if (asked->slot < UROCE_SLOT_FIRST || asked->slot > UROCE_SLOT_LAST || asked->reserved)
		return -EINVAL;
	spin_lock_irqsave(&net->lock, flags);
	slot = net->slots[asked->slot];
	if (!slot) {
		err = -ENOENT;
	} else if (slot->cookie != asked->cookie) {
		err = -EPERM;
	} else {
		asked->device = slot->device;
		asked->pid = pid_vnr(slot->owner);
	}
	spin_unlock_irqrestore(&net->lock, flags);
	return err;
}

int uroce_slot_release(struct uroce_net *net, u32 number)
{
	unsigned long flags;
	int err = 0;

	if (number < UROCE_SLOT_FIRST || number > UROCE_SLOT_LAST)
		return -EINVAL;
	spin_lock_irqsave(&net->lock, flags);
	if (__test_and_clear_bit(number, net->told))
		__clear_bit(number, net->taken);
	else
		err = -EBUSY;
	spin_unlock_irqrestore(&net->lock, flags);
	return err;
}

/*
 * Indices roll, from one owner of the slot to the next, too: a packet for an old
 * QP is not to find a new one. Of two calls at once for one slot the later one
 * says where the search goes on; the table keeps the indices apart.
 */
int uroce_slot_add_qp(struct uroce_slot *slot, struct uroce_qp *qp, bool kickable)
{
	const struct xa_limit limit = XA_LIMIT(0, UROCE_MAX_QP_PER_CONTEXT - 1);
	u32 *rolling = &slot->net->next_qp[slot->number];
	u32 next = READ_ONCE(*rolling);
	int err;

	err = xa_alloc_cyclic_irq(&slot->qps, &qp->index, kickable ? qp : NULL, limit, &next,
				  GFP_KERNEL_ACCOUNT);
	if (err < 0)
		return err == -EBUSY ? -ENOMEM : err;
	WRITE_ONCE(*rolling, next);
	qp->slot = uroce_slot_get(slot);
	qp->ibqp.qp_num = slot->number << UROCE_INDEX_BITS | qp->index;
	return 0;
}

/* After this nobody kicks it. */
void uroce_slot_remove_qp(struct uroce_slot *slot, struct uroce_qp *qp)
{
	xa_erase_irq(&slot->qps, qp->index);
	qp->slot = NULL;
	uroce_slot_put(slot);
}
