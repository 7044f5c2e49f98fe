/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* ib_core and ib_uverbs, as far as the module's logic sees them. Part of mock_kernel.h. Values are
 * the kernel's where programs see them. */
#ifndef MOCK_RDMA_H
#define MOCK_RDMA_H

enum rdma_driver_id { RDMA_DRIVER_UNKNOWN };
enum ib_mtu { IB_MTU_256 = 1, IB_MTU_512, IB_MTU_1024, IB_MTU_2048, IB_MTU_4096 };
enum ib_qp_state {
	IB_QPS_RESET,
	IB_QPS_INIT,
	IB_QPS_RTR,
	IB_QPS_RTS,
	IB_QPS_SQD,
	IB_QPS_SQE,
	IB_QPS_ERR
};
enum ib_qp_type {
	IB_QPT_SMI,
	IB_QPT_GSI,
	IB_QPT_RC,
	IB_QPT_UC,
	IB_QPT_UD,
	IB_QPT_RAW_PACKET = 8,
	IB_QPT_XRC_INI = 9,
	IB_QPT_XRC_TGT
};
enum ib_srq_type { IB_SRQT_BASIC, IB_SRQT_XRC, IB_SRQT_TM };
enum ib_event_type {
	IB_EVENT_CQ_ERR,
	IB_EVENT_QP_FATAL,
	IB_EVENT_QP_REQ_ERR,
	IB_EVENT_QP_ACCESS_ERR,
	IB_EVENT_COMM_EST,
	IB_EVENT_SQ_DRAINED,
	IB_EVENT_PATH_MIG,
	IB_EVENT_PATH_MIG_ERR,
	IB_EVENT_DEVICE_FATAL,
	IB_EVENT_PORT_ACTIVE,
	IB_EVENT_PORT_ERR,
	IB_EVENT_SRQ_ERR = 14,
	IB_EVENT_SRQ_LIMIT_REACHED,
	IB_EVENT_QP_LAST_WQE_REACHED
};
enum ib_qp_attr_mask {
	IB_QP_STATE = 1,
	IB_QP_CUR_STATE = 1 << 1,
	IB_QP_ACCESS_FLAGS = 1 << 3,
	IB_QP_PKEY_INDEX = 1 << 4,
	IB_QP_PORT = 1 << 5,
	IB_QP_QKEY = 1 << 6,
	IB_QP_AV = 1 << 7,
	IB_QP_PATH_MTU = 1 << 8,
	IB_QP_TIMEOUT = 1 << 9,
	IB_QP_RETRY_CNT = 1 << 10,
	IB_QP_RNR_RETRY = 1 << 11,
	IB_QP_RQ_PSN = 1 << 12,
	IB_QP_MAX_QP_RD_ATOMIC = 1 << 13,
	IB_QP_ALT_PATH = 1 << 14,
	IB_QP_MIN_RNR_TIMER = 1 << 15,
	IB_QP_SQ_PSN = 1 << 16,
	IB_QP_MAX_DEST_RD_ATOMIC = 1 << 17,
	IB_QP_PATH_MIG_STATE = 1 << 18,
	IB_QP_CAP = 1 << 19,
	IB_QP_DEST_QPN = 1 << 20,
	IB_QP_RATE_LIMIT = 1 << 25,
	IB_QP_ATTR_STANDARD_BITS = (1 << 21) - 1
};
enum ib_srq_attr_mask { IB_SRQ_MAX_WR = 1, IB_SRQ_LIMIT = 2 };
enum { IB_MR_REREG_TRANS = 1, IB_MR_REREG_PD = 2, IB_MR_REREG_ACCESS = 4 };
enum ib_cq_notify_flags {
	IB_CQ_SOLICITED = 1,
	IB_CQ_NEXT_COMP = 2,
	IB_CQ_REPORT_MISSED_EVENTS = 4
};
enum { IB_WC_SUCCESS, IB_WC_GENERAL_ERR = 21, IB_WC_SEND = 0, IB_WC_RECV = 1 << 7 };
enum { IB_WC_GRH = 1, IB_WC_WITH_VLAN = 1 << 4, IB_WC_WITH_NETWORK_HDR_TYPE = 1 << 6 };
enum { RDMA_NETWORK_IPV4 = 2, RDMA_NETWORK_IPV6 = 3 };
enum { IB_WR_SEND = 2 };
enum { IB_AH_GRH = 1, RDMA_AH_ATTR_TYPE_ROCE = 2 };
enum {
	IB_PORT_DOWN = 1,
	IB_PORT_ACTIVE = 4,
	IB_PORT_PHYS_STATE_DISABLED = 3,
	IB_PORT_PHYS_STATE_LINK_UP = 5
};
enum { IB_SPEED_SDR = 1, IB_WIDTH_1X = 1, IB_PORT_CM_SUP = 1 << 16, IB_DEFAULT_PKEY_FULL = 0xffff };
enum rdma_link_layer {
	IB_LINK_LAYER_UNSPECIFIED,
	IB_LINK_LAYER_INFINIBAND,
	IB_LINK_LAYER_ETHERNET
};
enum { RDMA_CORE_PORT_IBA_ROCE_UDP_ENCAP = 1, IB_MGMT_MAD_SIZE = 256 };

union ib_gid {
	u8 raw[16];
};
struct ib_grh {
	u8 bytes[40];
};
struct device {
	const char *name;
};
#define dev_name(device) ((device)->name)

struct ib_device {
	struct device dev;
	u32 index;
	bool unregistering;
};
struct ib_udata {
	size_t inlen, outlen;
	const void *in;
	void *out;
	struct ib_ucontext *context;
};
struct ib_ucontext {
	struct ib_device *device;
};
#define rdma_udata_to_drv_context(udata, type, member)                                             \
	((udata) ? container_of((udata)->context, type, member) : NULL)
extern int mock_copy_fails;
static inline int ib_copy_to_udata(struct ib_udata *udata, const void *from, size_t bytes)
{
	assert(mock_spinning == 0 && bytes <= udata->outlen);
	if (mock_copy_fails)
		return -EFAULT;
	memcpy(udata->out, from, bytes);
	return 0;
}
static inline int ib_copy_from_udata(void *to, const struct ib_udata *udata, size_t bytes)
{
	assert(mock_spinning == 0 && bytes <= udata->inlen);
	memcpy(to, udata->in, bytes);
	return 0;
}

struct ib_event {
	struct ib_device *device;
	union {
		struct ib_cq *cq;
		struct ib_qp *qp;
		struct ib_srq *srq;
		u32 port_num;
	} element;
	u32 event;
};
void ib_dispatch_event(struct ib_event *event); /* the test's */
static inline bool ib_device_try_get(struct ib_device *device)
{
	return !device->unregistering;
}
#define ib_device_put(device) ((void)(device))
#define ib_unregister_device_queued(device) ((device)->unregistering = true)

struct ib_cqe {
	int unused;
};
struct ib_wc {
	struct ib_cqe *wr_cqe;
	struct ib_qp *qp;
	u32 status, opcode, byte_len, src_qp, wc_flags, network_hdr_type, port_num;
	u16 vlan_id;
};
struct ib_cq {
	struct ib_device *device;
	void (*comp_handler)(struct ib_cq *cq, void *context);
	void (*event_handler)(struct ib_event *event, void *context);
	void *cq_context;
	int cqe;
};
struct ib_cq_init_attr {
	u32 cqe, comp_vector, flags;
};
struct ib_pd {
	struct ib_device *device;
};
struct ib_mr {
	struct ib_device *device;
	u32 lkey, rkey;
	u64 length, iova;
};
struct ib_mw {
	struct ib_device *device;
	u32 rkey;
};
struct ib_xrcd {
	struct ib_device *device;
};
struct ib_srq_attr {
	u32 max_wr, max_sge, srq_limit;
};
struct ib_srq_init_attr {
	struct ib_srq_attr attr;
	enum ib_srq_type srq_type;
};
struct ib_srq {
	struct ib_device *device;
	void (*event_handler)(struct ib_event *event, void *context);
	void *srq_context;
	struct {
		struct {
			u32 srq_num;
		} xrc;
	} ext;
};

struct ib_gid_attr {
	struct net_device *ndev;
	struct ib_device *device;
	union ib_gid gid;
	u16 index;
};
#define rdma_read_gid_attr_ndev_rcu(attr)                                                          \
	((attr)->ndev ? (attr)->ndev : (struct net_device *)ERR_PTR(-ENODEV))
struct ib_global_route {
	const struct ib_gid_attr *sgid_attr;
	union ib_gid dgid;
	u32 flow_label;
	u8 sgid_index, hop_limit, traffic_class;
};
struct rdma_ah_attr {
	struct ib_global_route grh;
	u32 ah_flags, type;
};
struct rdma_ah_init_attr {
	struct rdma_ah_attr *ah_attr;
};
#define rdma_ah_read_grh(attr) (&(attr)->grh)
#define rdma_ah_get_ah_flags(attr) ((attr)->ah_flags)
struct ib_ah {
	struct ib_device *device;
};

struct ib_qp_cap {
	u32 max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline_data;
};
struct ib_qp_attr {
	enum ib_qp_state qp_state, cur_qp_state;
	enum ib_mtu path_mtu;
	u32 qkey, rq_psn, sq_psn, dest_qp_num;
	int qp_access_flags;
	struct ib_qp_cap cap;
	struct rdma_ah_attr ah_attr;
	u16 pkey_index;
	u8 max_rd_atomic, max_dest_rd_atomic, min_rnr_timer, timeout, retry_cnt, rnr_retry;
	u32 port_num;
};
struct ib_qp_init_attr {
	struct ib_cq *send_cq, *recv_cq;
	struct ib_srq *srq;
	struct ib_xrcd *xrcd;
	struct ib_qp_cap cap;
	int sq_sig_type;
	enum ib_qp_type qp_type;
	u32 create_flags, port_num, source_qpn;
	void *rwq_ind_tbl;
};
struct ib_qp {
	struct ib_device *device;
	struct ib_cq *send_cq, *recv_cq;
	struct ib_srq *srq;
	void (*event_handler)(struct ib_event *event, void *context);
	void *qp_context;
	u32 qp_num;
	enum ib_qp_type qp_type;
};

struct ib_sge {
	u64 addr;
	u32 length, lkey;
};
struct ib_send_wr {
	struct ib_send_wr *next;
	struct ib_cqe *wr_cqe;
	struct ib_sge *sg_list;
	int num_sge;
	u32 opcode;
};
struct ib_recv_wr {
	struct ib_recv_wr *next;
	struct ib_cqe *wr_cqe;
	struct ib_sge *sg_list;
	int num_sge;
};
struct ib_ud_wr {
	struct ib_send_wr wr;
	struct ib_ah *ah;
	u32 remote_qpn, remote_qkey;
};
#define ud_wr(wr) container_of(wr, struct ib_ud_wr, wr)

struct ib_port_attr {
	u32 state, phys_state, max_mtu, active_mtu, port_cap_flags, max_msg_sz;
	int gid_tbl_len;
	u16 pkey_tbl_len, active_speed;
	u8 max_vl_num, active_width;
	bool ip_gids;
};
struct ib_port_immutable {
	int pkey_tbl_len, gid_tbl_len;
	u32 core_cap_flags, max_mad_size;
};
#define ib_get_eth_speed(device, port, speed, width) ((void)(port), *(speed) = 8, *(width) = 2, 0)

struct ib_device_ops {
	int unused;
};
struct file_operations {
	int unused;
};
struct ib_uverbs_file {
	struct ib_ucontext *context;
};
struct uverbs_attr_bundle {
	struct ib_uverbs_file *ufile;
	struct ib_udata ucore, driver_udata;
};
#define ib_uverbs_get_ucontext_file(file) ((file)->context)
enum { UVERBS_OBJECT_CQ = 3, UAPI_DEF_OBJECT_START = 1, UAPI_DEF_WRITE = 2, UAPI_SCOPE_OBJECT = 1 };
struct uapi_definition {
	u8 kind, scope;
	struct {
		u16 object_id;
	} object_start;
	struct {
		u16 command_num;
		u8 req_size;
	} write;
	int (*func_write)(struct uverbs_attr_bundle *attrs);
};

#endif
