// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The channel to uroced, without its file: what waits for uroced, and what uroced says. */
#include <linux/bitmap.h>
#include <linux/slab.h>

#include "kmod-shim/module/uroce.h"

struct uroce_channel *uroce_channel_open(struct uroce_net *net)
{
	struct uroce_channel *channel = kzalloc(sizeof(*channel), GFP_KERNEL);
	bool busy;

	if (!channel)
		return ERR_PTR(-ENOMEM);
	channel->queue = kvcalloc(UROCE_CHANNEL_QUEUE, sizeof(*channel->queue), GFP_KERNEL);
	if (!channel->queue) {
		kfree(channel);
		return ERR_PTR(-ENOMEM);
	}
	channel->net = net;
	channel->devices_changed = true;
	init_waitqueue_head(&channel->wait);

	spin_lock_irq(&net->lock);
	busy = net->channel;
	if (!busy)
		net->channel = channel;
	spin_unlock_irq(&net->lock);
	if (busy) {
		kvfree(channel->queue);
		kfree(channel);
		return ERR_PTR(-EBUSY);
	}
	return channel;
}

/* Tells the links of the namespace, outside of its lock. */
static void uroce_for_links(struct uroce_net *net, void (*tell)(struct uroce_device *dev))
{
	struct uroce_device *dev;

	mutex_lock(&uroce_devices_lock);
	list_for_each_entry (dev, &uroce_devices, entry)
		if (dev->net == net)
			tell(dev);
	mutex_unlock(&uroce_devices_lock);
}

static void uroce_tell_fatal(struct uroce_device *dev)
{
	if (!ib_device_try_get(&dev->ibdev))
		return;
	uroce_port_update(dev);
	/* Their data path has died with uroced. */
	uroce_port_event(dev, IB_EVENT_DEVICE_FATAL);
	ib_device_put(&dev->ibdev);
}

static void uroce_tell_port(struct uroce_device *dev)
{
	if (!ib_device_try_get(&dev->ibdev))
		return;
	uroce_port_update(dev);
	ib_device_put(&dev->ibdev);
}

void uroce_channel_set_ready(struct uroce_channel *channel, bool ready)
{
	spin_lock_irq(&channel->net->lock);
	channel->net->ready = ready;
	spin_unlock_irq(&channel->net->lock);
	uroce_for_links(channel->net, uroce_tell_port);
}

void uroce_channel_close(struct uroce_channel *channel)
{
	struct uroce_net *net = channel->net;
	bool was_ready;

	spin_lock_irq(&net->lock);
	was_ready = net->ready;
	net->ready = false;
	net->channel = NULL;
	/* The sockets behind ended slots are gone. */
	bitmap_andnot(net->taken, net->taken, net->ended, UROCE_SLOT_LAST + 1);
	bitmap_andnot(net->taken, net->taken, net->told, UROCE_SLOT_LAST + 1);
	bitmap_zero(net->ended, UROCE_SLOT_LAST + 1);
	bitmap_zero(net->told, UROCE_SLOT_LAST + 1);
	spin_unlock_irq(&net->lock);
	if (was_ready)
		uroce_for_links(net, uroce_tell_fatal);
	kvfree(channel->queue);
	kfree(channel);
	uroce_net_put(net);
}

/* With interrupts off, too. */
bool uroce_channel_push(struct uroce_net *net, const struct uroce_channel_mad *mad)
{
	struct uroce_channel *channel;
	unsigned long flags;
	bool taken = false;

	spin_lock_irqsave(&net->lock, flags);
	channel = net->channel;
	if (channel && channel->used < UROCE_CHANNEL_QUEUE) {
		channel->queue[(channel->head + channel->used++) % UROCE_CHANNEL_QUEUE] = *mad;
		wake_up(&channel->wait);
		taken = true;
	} else if (channel) {
		channel->dropped_outgoing++;
	}
	spin_unlock_irqrestore(&net->lock, flags);
	return taken;
}

bool uroce_channel_pop(struct uroce_channel *channel, struct uroce_channel_mad *mad)
{
	bool there;

	spin_lock_irq(&channel->net->lock);
	there = channel->used;
	if (there) {
		*mad = channel->queue[channel->head];
		channel->head = (channel->head + 1) % UROCE_CHANNEL_QUEUE;
		channel->used--;
	}
	spin_unlock_irq(&channel->net->lock);
	return there;
}

bool uroce_channel_has_input(struct uroce_channel *channel)
{
	struct uroce_net *net = channel->net;
	bool there;

	spin_lock_irq(&net->lock);
	there = channel->used || channel->devices_changed ||
		!bitmap_empty(net->ended, UROCE_SLOT_LAST + 1);
	spin_unlock_irq(&net->lock);
	return there;
}

void uroce_channel_take_news(struct uroce_channel *channel, struct uroce_channel_news *news)
{
	struct uroce_net *net = channel->net;
	unsigned int slot;

	memset(news, 0, sizeof(*news));
	spin_lock_irq(&net->lock);
	for_each_set_bit (slot, net->ended, UROCE_SLOT_LAST + 1)
		news->ended[slot / 64] |= 1ull << slot % 64;
	bitmap_or(net->told, net->told, net->ended, UROCE_SLOT_LAST + 1);
	bitmap_zero(net->ended, UROCE_SLOT_LAST + 1);
	news->devices_changed = channel->devices_changed;
	channel->devices_changed = false;
	news->dropped_outgoing = channel->dropped_outgoing;
	news->dropped_incoming = channel->dropped_incoming;
	spin_unlock_irq(&net->lock);
}

void uroce_channel_note_change(struct uroce_net *net)
{
	unsigned long flags;

	spin_lock_irqsave(&net->lock, flags);
	if (net->channel) {
		net->channel->devices_changed = true;
		wake_up(&net->channel->wait);
	}
	spin_unlock_irqrestore(&net->lock, flags);
}

static struct uroce_device *uroce_find_link(struct uroce_net *net, u32 index)
{
	struct uroce_device *dev;

	list_for_each_entry (dev, &uroce_devices, entry)
		if (dev->net == net && dev->ibdev.index == index)
			return dev;
	return NULL;
}

/* A packet for QP 1. A drop for lack of buffers is counted, and no error: the network may lose
 * packets. */
int uroce_channel_accept(struct uroce_channel *channel, const struct uroce_channel_mad *in)
{
	struct uroce_device *dev;
	int err = -ENODEV;

	if (memchr_inv(in->reserved, 0, sizeof(in->reserved)))
		return -EINVAL;
	mutex_lock(&uroce_devices_lock);
	dev = uroce_find_link(channel->net, in->device);
	if (dev && ib_device_try_get(&dev->ibdev)) {
		err = uroce_gsi_deliver(dev, in);
		ib_device_put(&dev->ibdev);
	}
	mutex_unlock(&uroce_devices_lock);
	if (err != -ENOBUFS)
		return err;
	spin_lock_irq(&channel->net->lock);
	channel->dropped_incoming++;
	spin_unlock_irq(&channel->net->lock);
	return 0;
}

static void uroce_describe(struct uroce_device *dev, struct uroce_channel_device *out)
{
	int i;

	memset(out, 0, sizeof(*out));
	out->index = dev->ibdev.index;
	strscpy(out->name, dev_name(&dev->ibdev.dev), sizeof(out->name));
	out->node_guid = (__force u64)dev->node_guid;
	out->ifindex = dev->ndev->ifindex;
	out->netdev_mtu = READ_ONCE(dev->ndev->mtu);
	out->netdev_up = netif_running(dev->ndev) && netif_carrier_ok(dev->ndev);
	out->active_mtu = uroce_active_mtu(out->netdev_mtu);
	spin_lock(&dev->gid_lock);
	for (i = 0; i < UROCE_CHANNEL_GIDS; i++) {
		if (dev->gids[i].foreign)
			continue;
		memcpy(out->gids[i].gid, dev->gids[i].gid.raw, sizeof(out->gids[i].gid));
		out->gids[i].ifindex = dev->gids[i].ifindex;
	}
	spin_unlock(&dev->gid_lock);
}

/* The link with the least index above `after`. */
int uroce_channel_describe(struct uroce_channel *channel, struct uroce_channel_device *out)
{
	struct uroce_device *dev, *next = NULL;
	const u32 after = out->after;

	mutex_lock(&uroce_devices_lock);
	list_for_each_entry (dev, &uroce_devices, entry) {
		if (dev->net != channel->net ||
		    (after != UROCE_CHANNEL_FIRST && dev->ibdev.index <= after))
			continue;
		if ((!next || dev->ibdev.index < next->ibdev.index) &&
		    ib_device_try_get(&dev->ibdev)) {
			if (next)
				ib_device_put(&next->ibdev);
			next = dev;
		}
	}
	if (next) {
		uroce_describe(next, out);
		ib_device_put(&next->ibdev);
	}
	mutex_unlock(&uroce_devices_lock);
	return next ? 0 : -ENOENT;
}
