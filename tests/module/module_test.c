// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The module's logic against mock_kernel.h. Tests stand in the order of the sources; the name is
 * function__case. */
#include "kmod-shim/module/uroce.h"

int mock_warnings, mock_spinning, mock_allocations_until_failure = -1, mock_copy_fails;
u64 mock_random;

static int failures;
#define EXPECT(holds)                                                                              \
	do {                                                                                       \
		if (!(holds)) {                                                                    \
			printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #holds);                 \
			failures++;                                                                \
		}                                                                                  \
	} while (0)
#define EXPECT_EQ(value, wanted)                                                                   \
	do {                                                                                       \
		long long is = (long long)(value), should = (long long)(wanted);                   \
		if (is != should) {                                                                \
			printf("%s:%d: %s is %lld, not %s (%lld)\n", __FILE__, __LINE__, #value,   \
			       is, #wanted, should);                                               \
			failures++;                                                                \
		}                                                                                  \
	} while (0)

/* ---- the world: one link in a namespace, one context */

static struct pid process = { .number = 4321 };
static struct net home, elsewhere;
static struct nsproxy proxy = { .net_ns = &home };
static struct task_struct task = { .pid = &process, .nsproxy = &proxy };
struct task_struct *current = &task;

static struct uroce_net *net, *other_net;
static struct net_device va, vlan, far;
static struct uroce_device *dev;
static struct uroce_context context;
static struct {
	u32 event, count;
	void *object;
} told;

/* main.c is not here. */
struct uroce_net *uroce_net_create(void)
{
	struct uroce_net *made = calloc(1, sizeof(*made));

	kref_init(&made->ref);
	return made;
}

static void free_net(struct kref *ref)
{
	free(container_of(ref, struct uroce_net, ref));
}

void uroce_net_put(struct uroce_net *of)
{
	kref_put(&of->ref, free_net);
}

struct uroce_net *uroce_net_of(const struct net *of)
{
	struct uroce_net *its = of == &home ? net : other_net;

	kref_get(&its->ref);
	return its;
}

void ib_dispatch_event(struct ib_event *event)
{
	told.event = event->event;
	told.count++;
}

static void on_event(struct ib_event *event, void *with)
{
	told.event = event->event;
	told.count++;
	told.object = with;
}

static void on_completion(struct ib_cq *cq, void *with)
{
	(void)cq;
	told.event = 1000;
	told.count++;
	told.object = with;
}

static union ib_gid gid_of(const char *text)
{
	union ib_gid gid = { .raw = { [10] = 0xff, [11] = 0xff } };

	if (inet_pton(AF_INET6, text, gid.raw) != 1)
		assert(inet_pton(AF_INET, text, gid.raw + 12) == 1);
	return gid;
}

static void add_gid(u16 index, const char *text, struct net_device *ndev)
{
	struct ib_gid_attr attr = {
		.ndev = ndev, .device = &dev->ibdev, .gid = gid_of(text), .index = index
	};

	EXPECT_EQ(uroce_add_gid(&attr, NULL), 0);
}

static int open_context(struct uroce_context *which, struct uroce_get_context_resp *response)
{
	struct ib_udata udata = { .outlen = sizeof(*response), .out = response };

	memset(which, 0, sizeof(*which));
	which->ibuc.device = &dev->ibdev;
	return uroce_alloc_ucontext(&which->ibuc, &udata);
}

static void set_up(void)
{
	struct uroce_get_context_resp response;

	mock_warnings = 0;
	mock_allocations_until_failure = -1;
	mock_copy_fails = 0;
	proxy.net_ns = &home;
	process.count = 0;
	memset(&told, 0, sizeof(told));
	net = uroce_net_create();
	other_net = uroce_net_create();
	va = (struct net_device){
		.net = &home, .ifindex = 7, .mtu = 1500, .running = true, .carrier = true
	};
	vlan = (struct net_device){ .net = &home, .ifindex = 8, .mtu = 1500, .vlan = 9 };
	far = (struct net_device){ .net = &elsewhere, .ifindex = 7 };
	dev = calloc(1, sizeof(*dev));
	dev->ibdev.dev.name = "ur0";
	dev->ibdev.index = 3;
	dev->ndev = &va;
	dev->net = net;
	list_add_tail(&dev->entry, &uroce_devices);
	add_gid(0, "fe80::1", &va);
	add_gid(1, "10.0.0.1", &va);
	add_gid(2, "10.9.0.1", &vlan);
	add_gid(3, "10.0.0.77", &far);
	EXPECT_EQ(open_context(&context, &response), 0);
}

static void tear_down(void)
{
	uroce_dealloc_ucontext(&context.ibuc);
	list_del(&dev->entry);
	for (int kind = 0; kind < UROCE_KINDS; kind++)
		EXPECT_EQ(dev->counts[kind].value, 0);
	EXPECT(xa_empty(&dev->keys) && xa_empty(&dev->srqs));
	EXPECT_EQ(net->ref.count, 1);
	EXPECT_EQ(process.count, 0);
	EXPECT_EQ(mock_spinning, 0);
	EXPECT_EQ(mock_warnings, 0);
	free(dev);
	uroce_net_put(net);
	uroce_net_put(other_net);
}

/* As /dev/uroce does it: the channel takes over a reference. */
static struct uroce_channel *open_channel(void)
{
	struct uroce_channel *channel = uroce_channel_open(uroce_net_of(&home));

	if (IS_ERR(channel))
		uroce_net_put(net);
	return channel;
}

/* ---- link.c */

static void uroce_take__the_limit_holds_and_is_given_back(void)
{
	u32 n;

	for (n = 0; uroce_take(dev, UROCE_PD) == 0; n++)
		;
	EXPECT_EQ(n, uroce_limit(UROCE_PD));
	uroce_give(dev, UROCE_PD);
	EXPECT_EQ(uroce_take(dev, UROCE_PD), 0);
	EXPECT_EQ(uroce_take(dev, UROCE_PD), -ENOMEM);
	for (; n; n--)
		uroce_give(dev, UROCE_PD);
}

/* ---- gid.c */

static void uroce_find_gid__each_by_its_netdev_and_never_a_foreign_one(void)
{
	union ib_gid gid = gid_of("10.0.0.1"), zero = { { 0 } };
	struct uroce_gid found;

	EXPECT(uroce_find_gid(dev, &gid, 0, &found) && found.ifindex == 7 &&
	       found.vlan == UROCE_NO_VLAN);
	EXPECT(uroce_find_gid(dev, &gid, 7, &found));
	EXPECT(!uroce_find_gid(dev, &gid, 8, &found));
	gid = gid_of("10.9.0.1");
	EXPECT(uroce_find_gid(dev, &gid, 8, &found) && found.vlan == 9);
	gid = gid_of("10.0.0.77");
	EXPECT(!uroce_find_gid(dev, &gid, 0, &found));
	EXPECT(!uroce_find_gid(dev, &zero, 0, &found));
}

static void uroce_del_gid__it_is_gone_and_uroced_hears_of_it(void)
{
	struct ib_gid_attr attr = { .device = &dev->ibdev, .index = 1 };
	union ib_gid gid = gid_of("10.0.0.1");
	struct uroce_channel *channel = open_channel();
	struct uroce_channel_news news;
	struct uroce_gid found;

	uroce_channel_take_news(channel, &news);
	EXPECT(!uroce_channel_has_input(channel));
	EXPECT_EQ(uroce_del_gid(&attr, NULL), 0);
	EXPECT(!uroce_find_gid(dev, &gid, 0, &found));
	EXPECT(uroce_channel_has_input(channel));
	attr.index = UROCE_GID_TABLE_LEN;
	EXPECT_EQ(uroce_del_gid(&attr, NULL), -EINVAL);
	EXPECT_EQ(uroce_add_gid(&attr, NULL), -EINVAL);
	uroce_channel_close(channel);
}

/* ---- port.c */

static void uroce_active_mtu__as_the_kernel_names_them(void)
{
	static const struct {
		unsigned int netdev;
		enum ib_mtu mtu;
	} rows[] = { { 0, 0 },
		     { 351, 0 },
		     { 352, IB_MTU_256 },
		     { 1500, IB_MTU_1024 },
		     { 4191, IB_MTU_2048 },
		     { 4192, IB_MTU_4096 },
		     { 65536, IB_MTU_4096 } };

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		EXPECT_EQ(uroce_active_mtu(rows[i].netdev), rows[i].mtu);
}

static void uroce_port_update__each_change_is_told_once(void)
{
	struct uroce_channel *channel = open_channel();
	struct ib_port_attr attr = { 0 };

	uroce_port_update(dev);
	EXPECT_EQ(told.count, 0); /* uroced is not ready */
	EXPECT_EQ(uroce_query_port(&dev->ibdev, 1, &attr), 0);
	EXPECT_EQ(attr.state, IB_PORT_DOWN);
	uroce_channel_set_ready(channel, true);
	EXPECT(told.count == 1 && told.event == IB_EVENT_PORT_ACTIVE);
	uroce_netdev_event(dev, NETDEV_UP);
	uroce_netdev_event(dev, NETDEV_CHANGE);
	EXPECT_EQ(told.count, 1);
	va.carrier = false;
	uroce_netdev_event(dev, NETDEV_CHANGE);
	uroce_netdev_event(dev, NETDEV_DOWN);
	EXPECT(told.count == 2 && told.event == IB_EVENT_PORT_ERR);
	uroce_query_port(&dev->ibdev, 1, &attr);
	EXPECT(attr.state == IB_PORT_DOWN && attr.ip_gids && attr.active_mtu == IB_MTU_1024);
	uroce_netdev_event(dev, NETDEV_UNREGISTER);
	EXPECT(dev->ibdev.unregistering);
	uroce_channel_close(channel);
	EXPECT_EQ(told.count, 2); /* it is on its way out, and hears that from ib_core */
}

/* ---- slot.c */

static void uroce_slot_take__lowest_first_and_no_more_than_there_are(void)
{
	struct uroce_slot *slots[UROCE_SLOT_LAST + 1];
	u32 n;

	EXPECT_EQ(context.slot->number, UROCE_SLOT_FIRST);
	for (n = UROCE_SLOT_FIRST + 1; n <= UROCE_SLOT_LAST; n++) {
		slots[n] = uroce_slot_take(net, 3);
		EXPECT(slots[n] && slots[n]->number == n);
	}
	EXPECT(!uroce_slot_take(net, 3));
	uroce_slot_put(slots[500]); /* without a channel it is free at once */
	slots[500] = uroce_slot_take(net, 3);
	EXPECT(slots[500] && slots[500]->number == 500);
	for (n = UROCE_SLOT_FIRST + 1; n <= UROCE_SLOT_LAST; n++)
		uroce_slot_put(slots[n]);
	mock_allocations_until_failure = 0;
	EXPECT(!uroce_slot_take(net, 3));
}

static void uroce_slot_find__for_the_owner_of_the_cookie_only(void)
{
	struct uroce_channel_slot asked = { .slot = context.slot->number,
					    .cookie = context.slot->cookie };

	EXPECT_EQ(uroce_slot_find(net, &asked), 0);
	EXPECT(asked.pid == 4321 && asked.device == 3);
	asked.cookie++;
	EXPECT_EQ(uroce_slot_find(net, &asked), -EPERM);
	EXPECT_EQ(uroce_slot_find(other_net, &asked), -ENOENT);
	asked.slot = 5;
	EXPECT_EQ(uroce_slot_find(net, &asked), -ENOENT);
	asked.slot = 0;
	EXPECT_EQ(uroce_slot_find(net, &asked), -EINVAL);
	asked.slot = UROCE_SLOT_LAST + 1;
	EXPECT_EQ(uroce_slot_find(net, &asked), -EINVAL);
	asked.slot = 1;
	asked.reserved = 1;
	EXPECT_EQ(uroce_slot_find(net, &asked), -EINVAL);
}

static void uroce_slot_release__only_what_has_ended_and_was_told(void)
{
	struct uroce_channel *channel = open_channel();
	struct uroce_slot *slot = uroce_slot_take(net, 3), *next;
	struct uroce_channel_news news;

	EXPECT_EQ(uroce_slot_release(net, 0), -EINVAL);
	EXPECT_EQ(uroce_slot_release(net, UROCE_SLOT_LAST + 1), -EINVAL);
	EXPECT_EQ(uroce_slot_release(net, 2), -EBUSY); /* live */
	uroce_slot_end(slot);
	EXPECT_EQ(uroce_slot_release(net, 2), -EBUSY); /* a QP holds it */
	uroce_slot_put(slot);
	EXPECT_EQ(uroce_slot_release(net, 2), -EBUSY); /* uroced does not know */
	next = uroce_slot_take(net, 3);
	EXPECT_EQ(next->number, 3);
	uroce_channel_take_news(channel, &news);
	EXPECT_EQ(news.ended[0], 1 << 2);
	uroce_channel_take_news(channel, &news);
	EXPECT_EQ(news.ended[0], 0);
	EXPECT_EQ(uroce_slot_release(net, 2), 0);
	EXPECT_EQ(uroce_slot_release(net, 2), -EBUSY);
	uroce_slot_put(next);
	next = uroce_slot_take(net, 3);
	EXPECT_EQ(next->number, 2);
	uroce_slot_put(next);
	/* When uroced goes, its sockets go, those of slots that it knew to have ended, too. */
	next = uroce_slot_take(net, 3);
	EXPECT_EQ(next->number, 4);
	uroce_channel_take_news(channel, &news);
	EXPECT_EQ(news.ended[0], 1 << 2 | 1 << 3);
	uroce_slot_put(next);
	uroce_channel_close(channel);
	EXPECT(!test_bit(3, net->taken) && !test_bit(4, net->taken));
	next = uroce_slot_take(net, 3);
	EXPECT_EQ(next->number, 2);
	uroce_slot_put(next);
}

/* ---- context.c */

static void uroce_alloc_ucontext__refused_without_room_or_from_elsewhere(void)
{
	struct uroce_get_context_resp response;
	struct uroce_context another = { .ibuc.device = &dev->ibdev };
	struct ib_udata small = { .outlen = 8, .out = &response };

	EXPECT_EQ(uroce_alloc_ucontext(&another.ibuc, &small), -EINVAL);
	proxy.net_ns = &elsewhere;
	EXPECT_EQ(open_context(&another, &response), -EPERM);
	proxy.net_ns = &home;
	mock_copy_fails = 1;
	EXPECT_EQ(open_context(&another, &response), -EFAULT);
	mock_copy_fails = 0;
	EXPECT_EQ(open_context(&another, &response), 0);
	EXPECT(response.slot == 2 && response.abi_version == UROCE_ABI_VERSION &&
	       response.cookie == another.slot->cookie);
	uroce_dealloc_ucontext(&another.ibuc);
}

/* ---- kick.c */

static struct uroce_cq user_cq;

static int make_cq(struct uroce_context *of, u32 *id)
{
	struct uroce_create_cq_resp response = { 0 };
	struct ib_udata udata = { .outlen = sizeof(response),
				  .out = &response,
				  .context = &of->ibuc };
	struct ib_cq_init_attr attr = { .cqe = 16 };
	int err;

	user_cq = (struct uroce_cq){ .ibcq = { .device = &dev->ibdev,
					       .comp_handler = on_completion,
					       .event_handler = on_event } };
	user_cq.ibcq.cq_context = &user_cq;
	err = uroce_create_cq(&user_cq.ibcq, &attr, &udata);
	*id = response.cq_id;
	return err;
}

static int kick(struct uroce_context *by, u32 kind, u32 id, u32 event)
{
	const struct uroce_kick what = { .kind = kind, .id = id, .event_type = event };

	return uroce_kick_one(by, &what);
}

static void uroce_kick_one__a_cq_of_the_context_with_a_cqs_event(void)
{
	struct uroce_get_context_resp response;
	struct uroce_context another;
	u32 id;

	EXPECT_EQ(make_cq(&context, &id), 0);
	EXPECT_EQ(kick(&context, UROCE_KICK_COMPLETION, id, 0), 0);
	EXPECT(told.count == 1 && told.event == 1000 && told.object == &user_cq);
	EXPECT_EQ(kick(&context, UROCE_KICK_CQ_EVENT, id, IB_EVENT_CQ_ERR), 0);
	EXPECT(told.count == 2 && told.event == IB_EVENT_CQ_ERR);
	EXPECT_EQ(kick(&context, UROCE_KICK_CQ_EVENT, id, IB_EVENT_DEVICE_FATAL), -EINVAL);
	EXPECT_EQ(kick(&context, UROCE_KICK_COMPLETION, id + 1, 0), -EINVAL);
	EXPECT_EQ(open_context(&another, &response), 0);
	EXPECT_EQ(kick(&another, UROCE_KICK_COMPLETION, id, 0), -EINVAL);
	EXPECT_EQ(told.count, 2);
	uroce_dealloc_ucontext(&another.ibuc);
	uroce_destroy_cq(&user_cq.ibcq, NULL);
	EXPECT_EQ(kick(&context, UROCE_KICK_COMPLETION, id, 0), -EINVAL);
}

static void uroce_kick_one__nonsense(void)
{
	struct uroce_kick reserved = { .kind = UROCE_KICK_COMPLETION, .reserved = 1 };

	EXPECT_EQ(make_cq(&context, &reserved.id), 0);
	EXPECT_EQ(uroce_kick_one(&context, &reserved), -EINVAL);
	uroce_destroy_cq(&user_cq.ibcq, NULL);
	EXPECT_EQ(kick(&context, 0, 0, 0), -EINVAL);
	EXPECT_EQ(kick(&context, 99, 0, 0), -EINVAL);
	EXPECT_EQ(kick(&context, UROCE_KICK_DEVICE_FATAL, 0, IB_EVENT_DEVICE_FATAL), -EOPNOTSUPP);
	EXPECT_EQ(kick(&context, UROCE_KICK_QP_EVENT, 1, IB_EVENT_QP_FATAL), -EINVAL); /* QP 1 */
	EXPECT_EQ(kick(&context, UROCE_KICK_SRQ_EVENT, 1, IB_EVENT_SRQ_ERR), -EINVAL);
}

/* ---- mr.c */

static void uroce_reg_user_mr__keys_differ_and_ranges_do_not_wrap(void)
{
	struct ib_pd pd = { .device = &dev->ibdev };
	struct ib_udata udata = { 0 };
	struct ib_mr *a = uroce_reg_user_mr(&pd, 0x1000, 4096, 0x1000, 0, &udata);
	struct ib_mr *b =
		uroce_reg_user_mr(&pd, 0, ~0ull, 0, 0, &udata); /* implicit on-demand paging */

	EXPECT(!IS_ERR(a) && !IS_ERR(b));
	EXPECT(a->lkey == a->rkey && a->lkey >> 8 != b->lkey >> 8 && a->lkey >> 8 != 0);
	EXPECT_EQ(PTR_ERR(uroce_reg_user_mr(&pd, ~0ull, 2, 0, 0, &udata)), -EINVAL);
	EXPECT_EQ(PTR_ERR(uroce_reg_user_mr(&pd, 0, 2, ~0ull, 0, &udata)), -EINVAL);
	mock_allocations_until_failure = 0;
	EXPECT_EQ(PTR_ERR(uroce_reg_user_mr(&pd, 0, 2, 0, 0, &udata)), -ENOMEM);
	mock_allocations_until_failure = 1; /* the region, but no entry for its key */
	EXPECT_EQ(PTR_ERR(uroce_reg_user_mr(&pd, 0, 2, 0, 0, &udata)), -ENOMEM);
	a->device = b->device = &dev->ibdev;
	uroce_dereg_mr(a, &udata);
	uroce_dereg_mr(b, &udata);
}

static void uroce_alloc_mw__an_index_that_comes_back_has_another_variant(void)
{
	struct ib_mw first = { .device = &dev->ibdev }, again = first;

	dev->next_key = 77;
	EXPECT_EQ(uroce_alloc_mw(&first, NULL), 0);
	uroce_dealloc_mw(&first);
	dev->next_key = 1 << 20; /* behind the last one */
	EXPECT_EQ(uroce_alloc_mw(&again, NULL), 0);
	EXPECT_EQ(again.rkey >> 8, 1);
	EXPECT((again.rkey & 0xff) != (first.rkey & 0xff));
	uroce_dealloc_mw(&again);
}

/* ---- cq.c */

static void uroce_create_cq__limits(void)
{
	struct uroce_create_cq_resp response;
	struct ib_udata udata = { .outlen = sizeof(response),
				  .out = &response,
				  .context = &context.ibuc };
	struct uroce_cq cq = { .ibcq.device = &dev->ibdev };
	struct ib_cq_init_attr attr = { .cqe = 0 };

	EXPECT_EQ(uroce_create_cq(&cq.ibcq, &attr, &udata), -EINVAL);
	attr.cqe = UROCE_MAX_CQE + 1;
	EXPECT_EQ(uroce_create_cq(&cq.ibcq, &attr, &udata), -EINVAL);
	attr.cqe = 16;
	attr.flags = 1 << 5;
	EXPECT_EQ(uroce_create_cq(&cq.ibcq, &attr, &udata), -EOPNOTSUPP);
	attr.flags = 0;
	udata.outlen = 0;
	EXPECT_EQ(uroce_create_cq(&cq.ibcq, &attr, &udata), -EINVAL);
	attr.cqe = 1 << 20; /* a kernel user's is a ring of that size */
	EXPECT_EQ(uroce_create_cq(&cq.ibcq, &attr, NULL), -EINVAL);
	EXPECT_EQ(uroce_resize_cq(&cq.ibcq, 4, NULL), -EOPNOTSUPP);
	EXPECT_EQ(uroce_resize_cq(&cq.ibcq, 0, &udata), -EINVAL);
}

/* ---- qp.c */

static int make_qp(struct uroce_qp *qp, enum ib_qp_type type, struct ib_xrcd *xrcd)
{
	struct ib_udata udata = { .context = &context.ibuc };
	struct ib_qp_init_attr init = { .qp_type = type,
					.xrcd = xrcd,
					.cap = { .max_send_wr = 4, .max_recv_wr = 4 } };

	*qp = (struct uroce_qp){ .ibqp = { .device = &dev->ibdev,
					   .qp_type = type,
					   .event_handler = on_event,
					   .qp_context = qp } };
	return uroce_create_qp(&qp->ibqp, &init, type == IB_QPT_XRC_TGT ? NULL : &udata);
}

static void uroce_create_qp__numbers_say_the_slot_and_roll(void)
{
	struct uroce_get_context_resp response;
	struct uroce_qp a, b, c;
	u32 slot;

	EXPECT_EQ(make_qp(&a, IB_QPT_RC, NULL), 0);
	EXPECT_EQ(make_qp(&b, IB_QPT_UD, NULL), 0);
	EXPECT(a.ibqp.qp_num >> 14 == context.slot->number && b.ibqp.qp_num == a.ibqp.qp_num + 1);
	uroce_destroy_qp(&a.ibqp, NULL);
	EXPECT_EQ(make_qp(&c, IB_QPT_UC, NULL), 0);
	EXPECT_EQ(c.ibqp.qp_num, b.ibqp.qp_num + 1);
	EXPECT_EQ(kick(&context, UROCE_KICK_QP_EVENT, b.ibqp.qp_num, IB_EVENT_COMM_EST), 0);
	EXPECT(told.count == 1 && told.object == &b);
	EXPECT_EQ(kick(&context, UROCE_KICK_QP_EVENT, b.ibqp.qp_num, IB_EVENT_PORT_ERR), -EINVAL);
	EXPECT_EQ(kick(&context, UROCE_KICK_QP_EVENT, b.ibqp.qp_num + (1 << 14), IB_EVENT_COMM_EST),
		  -EINVAL);
	EXPECT_EQ(kick(&context, UROCE_KICK_QP_EVENT, a.ibqp.qp_num, IB_EVENT_COMM_EST), -EINVAL);
	uroce_destroy_qp(&b.ibqp, NULL);
	uroce_destroy_qp(&c.ibqp, NULL);
	/* The slot's next owner does not begin with the same numbers. */
	slot = context.slot->number;
	uroce_dealloc_ucontext(&context.ibuc);
	EXPECT_EQ(open_context(&context, &response), 0);
	EXPECT_EQ(context.slot->number, slot);
	EXPECT_EQ(make_qp(&a, IB_QPT_RC, NULL), 0);
	EXPECT_EQ(a.ibqp.qp_num, c.ibqp.qp_num + 1);
	uroce_destroy_qp(&a.ibqp, NULL);
}

static void uroce_create_qp__what_is_not_there(void)
{
	struct ib_udata udata = { .context = &context.ibuc };
	struct ib_qp_init_attr init = { .qp_type = IB_QPT_RC };
	struct uroce_qp qp = { .ibqp.device = &dev->ibdev };

	EXPECT_EQ(uroce_create_qp(&qp.ibqp, &init, NULL), -EOPNOTSUPP); /* a kernel user */
	init.create_flags = 1;
	EXPECT_EQ(uroce_create_qp(&qp.ibqp, &init, &udata), -EOPNOTSUPP);
	init.create_flags = 0;
	init.qp_type = IB_QPT_RAW_PACKET;
	EXPECT_EQ(uroce_create_qp(&qp.ibqp, &init, &udata), -EOPNOTSUPP);
	init.qp_type = IB_QPT_GSI;
	EXPECT_EQ(uroce_create_qp(&qp.ibqp, &init, &udata), -EOPNOTSUPP); /* a program's QP 1 */
	init.qp_type = IB_QPT_RC;
	init.cap.max_send_wr = UROCE_MAX_QP_WR + 1;
	EXPECT_EQ(uroce_create_qp(&qp.ibqp, &init, &udata), -EINVAL);
}

static void
uroce_create_qp__an_xrc_target_outlives_its_context_and_is_not_kicked_before_its_time(void)
{
	struct uroce_get_context_resp response;
	struct uroce_xrcd xrcd = { .ibxrcd.device = &dev->ibdev };
	struct ib_qp_attr attr = { .qp_state = IB_QPS_INIT };
	struct ib_udata udata = { 0 };
	struct uroce_context another;
	struct uroce_slot *slot;
	struct uroce_qp qp;

	EXPECT_EQ(open_context(&another, &response), 0);
	udata.context = &another.ibuc;
	EXPECT_EQ(uroce_alloc_xrcd(&xrcd.ibxrcd, &udata), 0);
	EXPECT_EQ(make_qp(&qp, IB_QPT_XRC_TGT, &xrcd.ibxrcd), 0);
	EXPECT_EQ(qp.ibqp.qp_num >> 14, another.slot->number);
	EXPECT_EQ(kick(&another, UROCE_KICK_QP_EVENT, qp.ibqp.qp_num, IB_EVENT_QP_FATAL), -EINVAL);
	EXPECT_EQ(uroce_modify_qp(&qp.ibqp, &attr, IB_QP_STATE, NULL), 0);
	EXPECT_EQ(kick(&another, UROCE_KICK_QP_EVENT, qp.ibqp.qp_num, IB_EVENT_QP_FATAL), 0);
	slot = another.slot;
	uroce_dealloc_ucontext(&another.ibuc);
	EXPECT(test_bit(slot->number, net->taken));
	uroce_destroy_qp(&qp.ibqp, NULL);
	uroce_dealloc_xrcd(&xrcd.ibxrcd, NULL);
	EXPECT(!test_bit(2, net->taken));
}

static void uroce_modify_qp__ranges_and_what_query_answers(void)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_RTR,
				   .path_mtu = IB_MTU_1024,
				   .dest_qp_num = 0x4001,
				   .rq_psn = 0x1ffffff };
	struct ib_qp_init_attr init = { 0 };
	struct ib_gid_attr sgid = { 0 };
	struct ib_qp_attr said;
	struct uroce_qp qp;

	EXPECT_EQ(make_qp(&qp, IB_QPT_RC, NULL), 0);
	attr.ah_attr.ah_flags = IB_AH_GRH;
	attr.ah_attr.grh.sgid_attr = &sgid;
	EXPECT_EQ(uroce_modify_qp(&qp.ibqp, &attr,
				  IB_QP_STATE | IB_QP_AV | IB_QP_PATH_MTU | IB_QP_DEST_QPN |
					  IB_QP_RQ_PSN,
				  NULL),
		  0);
	uroce_query_qp(&qp.ibqp, &said, 0, &init);
	EXPECT(said.qp_state == IB_QPS_RTR && said.path_mtu == IB_MTU_1024 &&
	       said.dest_qp_num == 0x4001 && said.rq_psn == 0xffffff);
	EXPECT(!said.ah_attr.grh.sgid_attr); /* no pointer that may die */
	EXPECT_EQ(init.cap.max_send_wr, 4);
	EXPECT_EQ(uroce_modify_qp(&qp.ibqp, &attr, IB_QP_ALT_PATH, NULL), -EOPNOTSUPP);
	EXPECT_EQ(uroce_modify_qp(&qp.ibqp, &attr, 1 << 30, NULL), -EOPNOTSUPP);
	attr.timeout = 32;
	EXPECT_EQ(uroce_modify_qp(&qp.ibqp, &attr, IB_QP_TIMEOUT, NULL), -EINVAL);
	attr.path_mtu = 6;
	EXPECT_EQ(uroce_modify_qp(&qp.ibqp, &attr, IB_QP_PATH_MTU, NULL), -EINVAL);
	attr.dest_qp_num = 1 << 24;
	EXPECT_EQ(uroce_modify_qp(&qp.ibqp, &attr, IB_QP_DEST_QPN, NULL), -EINVAL);
	attr.ah_attr.ah_flags = 0;
	EXPECT_EQ(uroce_modify_qp(&qp.ibqp, &attr, IB_QP_AV, NULL), -EINVAL);
	attr.qp_state = IB_QPS_RESET;
	EXPECT_EQ(uroce_modify_qp(&qp.ibqp, &attr, IB_QP_STATE, NULL), 0);
	uroce_query_qp(&qp.ibqp, &said, 0, &init);
	EXPECT(said.qp_state == IB_QPS_RESET && said.dest_qp_num == 0 && said.cap.max_send_wr == 4);
	uroce_destroy_qp(&qp.ibqp, NULL);
}

/* Bit by bit: the greatest value that is taken, the least that is not, and that it alone is stored.
 */
static void uroce_modify_qp__each_bit_stores_its_own_attribute_and_no_other(void)
{
	static const struct {
		int bit;
		size_t at, bytes;
		u32 taken, refused; /* refused 0: any value is taken */
		u32 stored;
	} bits[] = {
#define BIT_OF(name, member, taken, refused, stored)                                               \
	{ name,                                                                                    \
	  offsetof(struct ib_qp_attr, member),                                                     \
	  sizeof(((struct ib_qp_attr *)0)->member),                                                \
	  taken,                                                                                   \
	  refused,                                                                                 \
	  stored }
		BIT_OF(IB_QP_STATE, qp_state, IB_QPS_ERR, IB_QPS_ERR + 1, IB_QPS_ERR),
		BIT_OF(IB_QP_ACCESS_FLAGS, qp_access_flags, 0xf, 0, 0xf),
		BIT_OF(IB_QP_PKEY_INDEX, pkey_index, 0, 1, 0),
		BIT_OF(IB_QP_PORT, port_num, 1, 2, 1),
		BIT_OF(IB_QP_QKEY, qkey, 0x80010000, 0, 0x80010000),
		BIT_OF(IB_QP_PATH_MTU, path_mtu, IB_MTU_4096, IB_MTU_4096 + 1, IB_MTU_4096),
		BIT_OF(IB_QP_TIMEOUT, timeout, 31, 32, 31),
		BIT_OF(IB_QP_RETRY_CNT, retry_cnt, 7, 8, 7),
		BIT_OF(IB_QP_RNR_RETRY, rnr_retry, 7, 8, 7),
		BIT_OF(IB_QP_RQ_PSN, rq_psn, 0x1234567, 0, 0x234567),
		BIT_OF(IB_QP_SQ_PSN, sq_psn, 0x1234567, 0, 0x234567),
		BIT_OF(IB_QP_MIN_RNR_TIMER, min_rnr_timer, 31, 32, 31),
		BIT_OF(IB_QP_MAX_QP_RD_ATOMIC, max_rd_atomic, UROCE_MAX_RD_ATOMIC,
		       UROCE_MAX_RD_ATOMIC + 1, UROCE_MAX_RD_ATOMIC),
		BIT_OF(IB_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic, UROCE_MAX_RD_ATOMIC,
		       UROCE_MAX_RD_ATOMIC + 1, UROCE_MAX_RD_ATOMIC),
		BIT_OF(IB_QP_DEST_QPN, dest_qp_num, 0xffffff, 0x1000000, 0xffffff),
#undef BIT_OF
	};
	struct ib_qp_init_attr init = { 0 };

	for (size_t i = 0; i < sizeof(bits) / sizeof(bits[0]); i++) {
		struct ib_qp_attr attr, before, after;
		u32 stored = 0;
		struct uroce_qp qp;
		char *at = (char *)&attr + bits[i].at;

		EXPECT_EQ(make_qp(&qp, IB_QPT_RC, NULL), 0);
		uroce_query_qp(&qp.ibqp, &before, 0, &init);
		/* All else is out of range, and must not be looked at. */
		memset(&attr, 0xa5, sizeof(attr));
		memset(at, 0, bits[i].bytes);
		if (bits[i].refused) {
			memcpy(at, &bits[i].refused, bits[i].bytes);
			EXPECT_EQ(uroce_modify_qp(&qp.ibqp, &attr, bits[i].bit, NULL), -EINVAL);
			uroce_query_qp(&qp.ibqp, &after, 0, &init);
			EXPECT_EQ(memcmp(&before, &after, sizeof(after)), 0);
		}
		memcpy(at, &bits[i].taken, bits[i].bytes);
		EXPECT_EQ(uroce_modify_qp(&qp.ibqp, &attr, bits[i].bit, NULL), 0);
		uroce_query_qp(&qp.ibqp, &after, 0, &init);
		memcpy(&stored, (char *)&after + bits[i].at, bits[i].bytes);
		EXPECT_EQ(stored, bits[i].stored);
		memcpy((char *)&after + bits[i].at, (char *)&before + bits[i].at, bits[i].bytes);
		if (bits[i].bit == IB_QP_STATE)
			after.cur_qp_state = before.cur_qp_state;
		EXPECT_EQ(memcmp(&before, &after, sizeof(after)), 0);
		uroce_destroy_qp(&qp.ibqp, NULL);
	}
}

static void uroce_modify_qp__the_bits_of_the_mask(void)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_INIT, .cur_qp_state = IB_QPS_RESET };
	struct ib_qp_attr before, after;
	struct ib_qp_init_attr init = { 0 };
	struct uroce_qp qp;

	EXPECT_EQ(make_qp(&qp, IB_QPT_RC, NULL), 0);
	uroce_query_qp(&qp.ibqp, &before, 0, &init);
	/* What is not there: migration, what the kernel may add, and no half of the rest is done.
	 */
	for (int bit = 0; bit < 31; bit++) {
		const int one = 1 << bit;

		if (one <= IB_QP_DEST_QPN && one != IB_QP_ALT_PATH && one != IB_QP_PATH_MIG_STATE &&
		    one != IB_QP_CAP)
			continue;
		EXPECT_EQ(uroce_modify_qp(&qp.ibqp, &attr, one | IB_QP_STATE, NULL), -EOPNOTSUPP);
	}
	/* A GID index that the table does not have, or no GRH. */
	attr.ah_attr.ah_flags = IB_AH_GRH;
	attr.ah_attr.grh.sgid_index = UROCE_GID_TABLE_LEN;
	EXPECT_EQ(uroce_modify_qp(&qp.ibqp, &attr, IB_QP_STATE | IB_QP_AV, NULL), -EINVAL);
	attr.ah_attr.grh.sgid_index = UROCE_GID_TABLE_LEN - 1;
	attr.ah_attr.ah_flags = 0;
	EXPECT_EQ(uroce_modify_qp(&qp.ibqp, &attr, IB_QP_STATE | IB_QP_AV, NULL), -EINVAL);
	attr.cur_qp_state = IB_QPS_ERR + 1;
	EXPECT_EQ(uroce_modify_qp(&qp.ibqp, &attr, IB_QP_STATE | IB_QP_CUR_STATE, NULL), -EINVAL);
	uroce_query_qp(&qp.ibqp, &after, 0, &init);
	EXPECT_EQ(memcmp(&before, &after, sizeof(after)), 0);
	uroce_destroy_qp(&qp.ibqp, NULL);
}

static void uroce_attach_mcast__groups_of_ud_only(void)
{
	union ib_gid group = gid_of("ff0e::1"), host = gid_of("fd00::1");
	struct ib_qp ud = { .device = &dev->ibdev, .qp_type = IB_QPT_UD },
		     rc = { .device = &dev->ibdev, .qp_type = IB_QPT_RC };

	EXPECT_EQ(uroce_attach_mcast(&rc, &group, 0), -EINVAL);
	EXPECT_EQ(uroce_attach_mcast(&ud, &host, 0), -EINVAL);
	EXPECT_EQ(uroce_attach_mcast(&ud, &group, 0), 0);
	uroce_detach_mcast(&ud, &group, 0);
}

/* ---- srq.c */

static void uroce_create_srq__numbers_limits_and_whose_it_is(void)
{
	struct uroce_create_srq_resp response;
	struct ib_udata udata = { .outlen = sizeof(response),
				  .out = &response,
				  .context = &context.ibuc };
	struct ib_srq_init_attr init = { .srq_type = IB_SRQT_XRC,
					 .attr = { .max_wr = 8, .max_sge = 1 } };
	struct uroce_srq srq = {
		.ibsrq = { .device = &dev->ibdev, .event_handler = on_event, .srq_context = &srq }
	};
	struct uroce_context another = { .ibuc.device = &dev->ibdev };
	struct ib_srq_attr attr = { .srq_limit = 9 };

	EXPECT_EQ(uroce_create_srq(&srq.ibsrq, &init, NULL), -EOPNOTSUPP);
	init.attr.srq_limit = 9;
	EXPECT_EQ(uroce_create_srq(&srq.ibsrq, &init, &udata), -EINVAL);
	init.attr.srq_limit = 0;
	mock_copy_fails = 1;
	EXPECT_EQ(uroce_create_srq(&srq.ibsrq, &init, &udata), -EFAULT);
	mock_copy_fails = 0;
	EXPECT_EQ(uroce_create_srq(&srq.ibsrq, &init, &udata), 0);
	EXPECT(response.srq_number == srq.number && srq.ibsrq.ext.xrc.srq_num == srq.number);
	EXPECT_EQ(uroce_modify_srq(&srq.ibsrq, &attr, IB_SRQ_LIMIT, &udata), -EINVAL);
	attr.srq_limit = 8;
	EXPECT_EQ(uroce_modify_srq(&srq.ibsrq, &attr, IB_SRQ_LIMIT, &udata), 0);
	uroce_query_srq(&srq.ibsrq, &attr);
	EXPECT(attr.max_wr == 8 && attr.srq_limit == 8);
	EXPECT_EQ(kick(&context, UROCE_KICK_SRQ_EVENT, srq.number, IB_EVENT_SRQ_LIMIT_REACHED), 0);
	EXPECT_EQ(kick(&another, UROCE_KICK_SRQ_EVENT, srq.number, IB_EVENT_SRQ_LIMIT_REACHED),
		  -EINVAL);
	EXPECT_EQ(told.count, 1);
	uroce_destroy_srq(&srq.ibsrq, &udata);
}

/* ---- ah.c, gsi.c, channel.c */

static struct {
	struct uroce_cq send_cq, recv_cq;
	struct uroce_qp qp;
	struct uroce_ah ah;
	u8 buffers[4][40 + 256];
	struct ib_cqe receive_cqes[4], send_cqe;
} gsi;

static int post_receives(int count, u32 length)
{
	const struct ib_recv_wr *bad = NULL;
	int err = 0;

	for (int i = 0; i < count && !err; i++) {
		struct ib_sge sge = { .addr = (uintptr_t)gsi.buffers[i], .length = length };
		struct ib_recv_wr wr = { .wr_cqe = &gsi.receive_cqes[i],
					 .sg_list = &sge,
					 .num_sge = 1 };

		err = uroce_post_recv(&gsi.qp.ibqp, &wr, &bad);
		EXPECT(!err == !bad);
	}
	return err;
}

static void make_gsi(void)
{
	struct ib_cq_init_attr attr = { .cqe = 4 };
	struct ib_qp_init_attr init = {
		.qp_type = IB_QPT_GSI,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 2, .max_recv_sge = 1 }
	};
	const struct ib_gid_attr sgid = {
		.ndev = &va, .device = &dev->ibdev, .gid = gid_of("10.0.0.1"), .index = 1
	};
	struct rdma_ah_attr ah = { .type = RDMA_AH_ATTR_TYPE_ROCE,
				   .ah_flags = IB_AH_GRH,
				   .grh = { .sgid_attr = &sgid,
					    .dgid = gid_of("10.0.0.2"),
					    .hop_limit = 64,
					    .traffic_class = 8 } };
	struct rdma_ah_init_attr ah_init = { .ah_attr = &ah };

	memset(&gsi, 0, sizeof(gsi));
	gsi.send_cq.ibcq = (struct ib_cq){ .device = &dev->ibdev, .comp_handler = on_completion };
	gsi.recv_cq.ibcq = gsi.send_cq.ibcq;
	gsi.qp.ibqp = (struct ib_qp){ .device = &dev->ibdev,
				      .qp_type = IB_QPT_GSI,
				      .send_cq = &gsi.send_cq.ibcq,
				      .recv_cq = &gsi.recv_cq.ibcq };
	gsi.ah.ibah.device = &dev->ibdev;
	EXPECT_EQ(uroce_create_cq(&gsi.send_cq.ibcq, &attr, NULL), 0);
	EXPECT_EQ(uroce_create_cq(&gsi.recv_cq.ibcq, &attr, NULL), 0);
	EXPECT_EQ(uroce_create_qp(&gsi.qp.ibqp, &init, NULL), 0);
	EXPECT_EQ(gsi.qp.ibqp.qp_num, 1);
	EXPECT_EQ(uroce_create_ah(&gsi.ah.ibah, &ah_init, NULL), 0);
}

static void end_gsi(void)
{
	uroce_destroy_ah(&gsi.ah.ibah, 0);
	uroce_destroy_qp(&gsi.qp.ibqp, NULL);
	uroce_destroy_cq(&gsi.send_cq.ibcq, NULL);
	uroce_destroy_cq(&gsi.recv_cq.ibcq, NULL);
}

static int send_mad(u32 first, u32 second)
{
	static u8 mad[512];
	struct ib_sge sges[2] = { { .addr = (uintptr_t)mad, .length = first },
				  { .addr = (uintptr_t)(mad + first), .length = second } };
	struct ib_ud_wr wr = { .wr = { .wr_cqe = &gsi.send_cqe,
				       .sg_list = sges,
				       .num_sge = 2,
				       .opcode = IB_WR_SEND },
			       .ah = &gsi.ah.ibah,
			       .remote_qpn = 1,
			       .remote_qkey = 0x80000000 };
	const struct ib_send_wr *bad = NULL;
	int err;

	for (int i = 0; i < 512; i++)
		mad[i] = i;
	err = uroce_post_send(&gsi.qp.ibqp, &wr.wr, &bad);
	EXPECT(err ? bad == &wr.wr : !bad);
	return err;
}

static struct uroce_channel_mad arriving(void)
{
	struct uroce_channel_mad in = {
		.device = 3, .ifindex = 7, .local_qpn = 1, .remote_qpn = 1, .hop_limit = 63
	};
	union ib_gid local = gid_of("10.0.0.1"), remote = gid_of("10.0.0.2");

	memcpy(in.local, local.raw, 16);
	memcpy(in.remote, remote.raw, 16);
	memset(in.mad, 0x5a, sizeof(in.mad));
	return in;
}

static void uroce_create_ah__what_it_refuses(void)
{
	struct rdma_ah_attr attr = { .type = RDMA_AH_ATTR_TYPE_ROCE, .ah_flags = IB_AH_GRH };
	struct rdma_ah_init_attr init = { .ah_attr = &attr };
	struct uroce_ah ah = { .ibah.device = &dev->ibdev };

	EXPECT_EQ(uroce_create_ah(&ah.ibah, &init, NULL), -EINVAL);
}

static void uroce_post_send__goes_to_uroced_whole(void)
{
	struct uroce_channel *channel = open_channel();
	struct uroce_channel_mad out;
	struct ib_wc wc;

	make_gsi();
	uroce_channel_set_ready(channel, true);
	EXPECT_EQ(send_mad(24, 232), 0);
	EXPECT(uroce_channel_pop(channel, &out));
	EXPECT(out.device == 3 && out.ifindex == 7 && out.local_qpn == 1 && out.remote_qpn == 1 &&
	       out.qkey == 0x80010000);
	EXPECT(out.traffic_class == 8 && out.hop_limit == 64 && out.local[15] == 1 &&
	       out.remote[15] == 2);
	for (int i = 0; i < 256; i++)
		EXPECT_EQ(out.mad[i], i);
	EXPECT(!uroce_channel_pop(channel, &out));
	EXPECT_EQ(uroce_poll_cq(&gsi.send_cq.ibcq, 1, &wc), 1);
	EXPECT(wc.status == IB_WC_SUCCESS && wc.wr_cqe == &gsi.send_cqe && wc.opcode == IB_WC_SEND);
	/* Not one MAD's length, and more than the buffers there are. */
	EXPECT_EQ(send_mad(24, 231), -EINVAL);
	EXPECT_EQ(send_mad(24, 233), -EINVAL);
	EXPECT_EQ(send_mad(300, 100), -EINVAL);
	uroce_channel_close(channel);
	EXPECT_EQ(send_mad(24, 232), 0); /* nobody is there: the sender is told */
	EXPECT_EQ(uroce_poll_cq(&gsi.send_cq.ibcq, 1, &wc), 1);
	EXPECT_EQ(wc.status, IB_WC_GENERAL_ERR);
	end_gsi();
}

static void uroce_post_send__a_full_queue_drops_and_counts_and_a_full_cq_refuses(void)
{
	struct uroce_channel *channel = open_channel();
	struct uroce_channel_news news;
	struct ib_wc wc;

	make_gsi();
	uroce_channel_set_ready(channel, true);
	for (int i = 0; i < UROCE_CHANNEL_QUEUE + 3; i++) {
		EXPECT_EQ(send_mad(256, 0), 0);
		EXPECT_EQ(uroce_poll_cq(&gsi.send_cq.ibcq, 1, &wc), 1);
	}
	uroce_channel_take_news(channel, &news);
	EXPECT_EQ(news.dropped_outgoing, 3);
	for (int i = 0; i < 4; i++)
		EXPECT_EQ(send_mad(256, 0), 0);
	EXPECT_EQ(send_mad(256, 0), -ENOMEM);
	uroce_channel_close(channel);
	end_gsi();
}

static void uroce_req_notify_cq__says_what_was_missed(void)
{
	struct uroce_channel *channel = open_channel();

	make_gsi();
	uroce_channel_set_ready(channel, true);
	told.count = 0;
	EXPECT_EQ(uroce_req_notify_cq(&gsi.send_cq.ibcq,
				      IB_CQ_NEXT_COMP | IB_CQ_REPORT_MISSED_EVENTS),
		  0);
	EXPECT_EQ(send_mad(256, 0), 0);
	EXPECT_EQ(send_mad(256, 0), 0);
	EXPECT_EQ(told.count, 1); /* armed once, told once */
	EXPECT_EQ(uroce_req_notify_cq(&gsi.send_cq.ibcq,
				      IB_CQ_NEXT_COMP | IB_CQ_REPORT_MISSED_EVENTS),
		  1);
	uroce_channel_close(channel);
	end_gsi();
}

static void uroce_channel_accept__is_received_with_its_header(void)
{
	struct uroce_channel *channel = open_channel();
	struct uroce_channel_mad in = arriving();
	struct ib_wc wc;
	u8 *header = gsi.buffers[0] + 20;

	make_gsi();
	EXPECT_EQ(post_receives(4, 296), 0);
	EXPECT_EQ(post_receives(1, 296), -ENOMEM);
	EXPECT_EQ(uroce_channel_accept(channel, &in), 0);
	EXPECT_EQ(uroce_poll_cq(&gsi.recv_cq.ibcq, 1, &wc), 1);
	EXPECT(wc.byte_len == 296 && wc.src_qp == 1 && wc.network_hdr_type == RDMA_NETWORK_IPV4);
	EXPECT(wc.wr_cqe == &gsi.receive_cqes[0] &&
	       wc.wc_flags == (IB_WC_GRH | IB_WC_WITH_NETWORK_HDR_TYPE));
	EXPECT(gsi.buffers[0][40] == 0x5a && gsi.buffers[0][295] == 0x5a);
	EXPECT(header[0] == 0x45 && header[9] == 17 && header[12] == 10 && header[15] == 2 &&
	       header[19] == 1);
	EXPECT_EQ(ip_fast_csum(header, 5), 0);
	/* To the VLAN's address. */
	in.local[13] = 9;
	in.ifindex = 8;
	EXPECT_EQ(uroce_channel_accept(channel, &in), 0);
	EXPECT_EQ(uroce_poll_cq(&gsi.recv_cq.ibcq, 1, &wc), 1);
	EXPECT((wc.wc_flags & IB_WC_WITH_VLAN) && wc.vlan_id == 9);
	uroce_channel_close(channel);
	end_gsi();
}

static void uroce_channel_accept__believes_nothing(void)
{
	struct uroce_channel *channel = open_channel(),
			     *foreign = uroce_channel_open(uroce_net_of(&elsewhere));
	struct uroce_channel_mad in;

#define REFUSED(change, error)                                                                     \
	do {                                                                                       \
		in = arriving();                                                                   \
		change;                                                                            \
		EXPECT_EQ(uroce_channel_accept(channel, &in), error);                              \
	} while (0)
	make_gsi();
	EXPECT_EQ(post_receives(1, 296), 0);
	REFUSED(in.device = 4, -ENODEV);
	REFUSED(in.local[15] = 99, -EADDRNOTAVAIL);
	REFUSED(in.local[15] = 77, -EADDRNOTAVAIL); /* in another namespace */
	REFUSED(in.ifindex = 8, -EADDRNOTAVAIL);
	REFUSED(in.local_qpn = 2, -EINVAL);
	REFUSED(in.remote_qpn = 1 << 24, -EINVAL);
	REFUSED(in.qkey = 1, -EINVAL);
	REFUSED(in.flow_label = 1 << 20, -EINVAL);
	REFUSED(in.reserved[5] = 1, -EINVAL);
	REFUSED(memset(in.remote, 0, 16), -EINVAL);
	REFUSED((memset(in.local, 0, 16), in.local[0] = 0xfe, in.local[1] = 0x80, in.local[15] = 1,
		 memset(in.remote, 0xff, 16)),
		-EINVAL);
	REFUSED(in.remote[10] = 0, -EINVAL); /* another family */
	in = arriving();
	EXPECT_EQ(uroce_channel_accept(foreign, &in), -ENODEV);
	dev->ibdev.unregistering = true;
	REFUSED((void)0, -ENODEV);
	dev->ibdev.unregistering = false;
	EXPECT_EQ(gsi.recv_cq.used, 0);
	uroce_channel_close(foreign);
	uroce_channel_close(channel);
	end_gsi();
}

static void uroce_channel_accept__without_buffers_it_is_dropped_and_counted(void)
{
	struct uroce_channel *channel = open_channel();
	struct uroce_channel_mad in = arriving();
	struct uroce_channel_news news;

	EXPECT_EQ(uroce_channel_accept(channel, &in), 0); /* no QP 1 */
	make_gsi();
	EXPECT_EQ(uroce_channel_accept(channel, &in), 0); /* no buffer */
	EXPECT_EQ(post_receives(1, 100), 0);
	EXPECT_EQ(uroce_channel_accept(channel, &in), 0); /* too small a one */
	uroce_channel_take_news(channel, &news);
	EXPECT_EQ(news.dropped_incoming, 3);
	EXPECT_EQ(gsi.recv_cq.used, 0);
	uroce_channel_close(channel);
	end_gsi();
}

static void uroce_channel_open__one_at_a_time(void)
{
	struct uroce_channel *channel = open_channel();

	EXPECT_EQ(PTR_ERR(open_channel()), -EBUSY);
	uroce_channel_close(channel);
	channel = open_channel();
	EXPECT(!IS_ERR(channel));
	uroce_channel_close(channel);
	for (int i = 0; i < 2; i++) {
		mock_allocations_until_failure = i;
		EXPECT_EQ(PTR_ERR(open_channel()), -ENOMEM);
	}
}

static void uroce_channel_close__ports_go_down_and_contexts_hear_the_end(void)
{
	struct uroce_channel *channel = open_channel();

	uroce_channel_set_ready(channel, true);
	EXPECT_EQ(told.count, 1);
	uroce_channel_close(channel);
	EXPECT(told.count == 3 && told.event == IB_EVENT_DEVICE_FATAL);
	EXPECT(!dev->port_up);
	/* One that was never ready has nothing to take away. */
	uroce_channel_close(open_channel());
	EXPECT_EQ(told.count, 3);
}

static void uroce_channel_describe__every_link_of_the_namespace_once(void)
{
	struct uroce_device *second = calloc(1, sizeof(*second)),
			    *third = calloc(1, sizeof(*third));
	struct uroce_channel *channel = open_channel();
	struct uroce_channel_device said = { .after = UROCE_CHANNEL_FIRST };

	*second = *dev;
	second->ibdev.index = 1;
	second->ibdev.dev.name = "ur1";
	*third = *dev;
	third->ibdev.index = 2;
	third->net = other_net;
	list_add_tail(&second->entry, &uroce_devices);
	list_add_tail(&third->entry, &uroce_devices);
	EXPECT_EQ(uroce_channel_describe(channel, &said), 0);
	EXPECT(said.index == 1 && !strcmp(said.name, "ur1"));
	said.after = said.index;
	EXPECT_EQ(uroce_channel_describe(channel, &said), 0);
	EXPECT(said.index == 3 && said.ifindex == 7 && said.netdev_mtu == 1500 &&
	       said.active_mtu == IB_MTU_1024 && said.netdev_up);
	EXPECT(said.gids[1].gid[15] == 1 && said.gids[1].ifindex == 7 && said.gids[2].ifindex == 8);
	EXPECT(said.gids[3].ifindex == 0 && said.gids[3].gid[15] == 0); /* in another namespace */
	said.after = said.index;
	EXPECT_EQ(uroce_channel_describe(channel, &said), -ENOENT);
	list_del(&second->entry);
	list_del(&third->entry);
	free(second);
	free(third);
	uroce_channel_close(channel);
}

#define TEST(name)                                                                                 \
	{                                                                                          \
#name, name                                                                        \
	}
static const struct {
	const char *name;
	void (*run)(void);
} tests[] = {
	TEST(uroce_take__the_limit_holds_and_is_given_back),
	TEST(uroce_find_gid__each_by_its_netdev_and_never_a_foreign_one),
	TEST(uroce_del_gid__it_is_gone_and_uroced_hears_of_it),
	TEST(uroce_active_mtu__as_the_kernel_names_them),
	TEST(uroce_port_update__each_change_is_told_once),
	TEST(uroce_slot_take__lowest_first_and_no_more_than_there_are),
	TEST(uroce_slot_find__for_the_owner_of_the_cookie_only),
	TEST(uroce_slot_release__only_what_has_ended_and_was_told),
	TEST(uroce_alloc_ucontext__refused_without_room_or_from_elsewhere),
	TEST(uroce_kick_one__a_cq_of_the_context_with_a_cqs_event),
	TEST(uroce_kick_one__nonsense),
	TEST(uroce_reg_user_mr__keys_differ_and_ranges_do_not_wrap),
	TEST(uroce_alloc_mw__an_index_that_comes_back_has_another_variant),
	TEST(uroce_create_cq__limits),
	TEST(uroce_create_qp__numbers_say_the_slot_and_roll),
	TEST(uroce_create_qp__what_is_not_there),
	TEST(uroce_create_qp__an_xrc_target_outlives_its_context_and_is_not_kicked_before_its_time),
	TEST(uroce_modify_qp__ranges_and_what_query_answers),
	TEST(uroce_modify_qp__each_bit_stores_its_own_attribute_and_no_other),
	TEST(uroce_modify_qp__the_bits_of_the_mask),
	TEST(uroce_attach_mcast__groups_of_ud_only),
	TEST(uroce_create_srq__numbers_limits_and_whose_it_is),
	TEST(uroce_create_ah__what_it_refuses),
	TEST(uroce_post_send__goes_to_uroced_whole),
	TEST(uroce_post_send__a_full_queue_drops_and_counts_and_a_full_cq_refuses),
	TEST(uroce_req_notify_cq__says_what_was_missed),
	TEST(uroce_channel_accept__is_received_with_its_header),
	TEST(uroce_channel_accept__believes_nothing),
	TEST(uroce_channel_accept__without_buffers_it_is_dropped_and_counted),
	TEST(uroce_channel_open__one_at_a_time),
	TEST(uroce_channel_close__ports_go_down_and_contexts_hear_the_end),
	TEST(uroce_channel_describe__every_link_of_the_namespace_once),
};

int main(int argc, char **argv)
{
	const size_t count = sizeof(tests) / sizeof(tests[0]);
	size_t failed = 0;

	for (size_t i = 0; i < count; i++) {
		int before = failures;

		if (argc > 1 && !strstr(tests[i].name, argv[1]))
			continue;
		set_up();
		tests[i].run();
		tear_down();
		if (failures != before) {
			printf("FAIL %s\n", tests[i].name);
			failed++;
		}
	}
	printf("%zu tests, %zu failed\n", count, failed);
	return failed != 0;
}
