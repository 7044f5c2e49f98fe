// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The private provider ABI of libibverbs, as far as this plugin uses it. Distributions do not install its
// header, and one ABI number hides several layouts, so everything that moves is a row of a table here and is
// compared with the loaded library by library.cc. Nothing outside this header, library.cc and plugin.cc knows
// it. Sizes and offsets are those of 64-bit Linux.
#pragma once

#include <infiniband/verbs.h>
#include <sys/types.h>
#include <time.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace uroce::verbs::abi {

struct verbs_context;     // opaque: reached by offsets from its end only
struct verbs_ex_private;  // likewise

// ---- device
// ------------------------------------------------------------------------------------------------------

enum class MatchKind : uint8_t { sentinel = 0, pci = 1, modalias = 2, driver_id = 3 };

struct verbs_match_ent {
  void* driver_data;
  union {
    const char* modalias;
    uint64_t driver_id;
  } u;
  uint16_t vendor;
  uint16_t device;
  MatchKind kind;
};
static_assert(sizeof(verbs_match_ent) == 24 && offsetof(verbs_match_ent, kind) == 20);

// What stands in front is the same in every version; `num_ports` appeared later, so nothing behind driver_id
// is used.
struct verbs_sysfs_dev {
  void* list_node[2];
  void* provider_data;
  const verbs_match_ent* match;
  uint32_t flags;
  char sysfs_name[IBV_SYSFS_NAME_MAX];
  dev_t sysfs_cdev;
  char ibdev_name[IBV_SYSFS_NAME_MAX];
  char ibdev_path[IBV_SYSFS_PATH_MAX];
  char modalias[512];
  uint64_t node_guid;
  uint32_t driver_id;
};
static_assert(offsetof(verbs_sysfs_dev, match) == 24 && offsetof(verbs_sysfs_dev, sysfs_name) == 36 &&
              offsetof(verbs_sysfs_dev, sysfs_cdev) == 104 && offsetof(verbs_sysfs_dev, ibdev_name) == 112 &&
              offsetof(verbs_sysfs_dev, modalias) == 432 && offsetof(verbs_sysfs_dev, driver_id) == 952);

struct verbs_device_ops;

struct verbs_device {
  ibv_device device;
  const verbs_device_ops* ops;
  std::atomic<int> refcount;
  void* list_node[2];
  verbs_sysfs_dev* sysfs;
  uint64_t core_support;
};
static_assert(sizeof(ibv_device) == 664 && sizeof(verbs_device) == 712 &&
              offsetof(verbs_device, sysfs) == 696 && offsetof(verbs_device, core_support) == 704);

// Without this bit the library strips IBV_ACCESS_OPTIONAL_RANGE before reg_mr.
constexpr uint64_t kCoreSupportOptionalMrAccess = 1;

struct verbs_device_ops {
  const char* name;
  uint32_t match_min_abi_version;
  uint32_t match_max_abi_version;
  const verbs_match_ent* match_table;
  const verbs_device_ops** static_providers;
  bool (*match_device)(verbs_sysfs_dev*);
  verbs_context* (*alloc_context)(ibv_device*, int cmd_fd, void* private_data);
  verbs_context* (*import_context)(ibv_device*, int cmd_fd);
  verbs_device* (*alloc_device)(verbs_sysfs_dev*);
  void (*uninit_device)(verbs_device*);
};
static_assert(sizeof(verbs_device_ops) == 72 && offsetof(verbs_device_ops, alloc_context) == 40);

// ---- objects
// -----------------------------------------------------------------------------------------------------

enum class MrType : uint32_t { mr = 0, null = 1, imported = 2, dmabuf = 3 };

struct verbs_mr {
  ibv_mr mr;
  MrType type;
  int access;
};
static_assert(sizeof(verbs_mr) == 56 && offsetof(verbs_mr, type) == 48 && offsetof(verbs_mr, access) == 52);

struct verbs_xrcd {
  ibv_xrcd xrcd;
  uint32_t comp_mask;
  uint32_t handle;
};
static_assert(sizeof(verbs_xrcd) == 16);

struct verbs_srq {
  ibv_srq srq;
  ibv_srq_type type;
  verbs_xrcd* xrcd;
  ibv_cq* cq;
  uint32_t srq_num;
};
static_assert(sizeof(ibv_srq) == 128 && sizeof(verbs_srq) == 160 && offsetof(verbs_srq, srq_num) == 152);

// Device memory (verbs_dm) has its handle at 32 in every version; newer public headers have a copy in front
// of it.
struct verbs_dm {
  ibv_dm dm;
  uint32_t handle;
};
static_assert(sizeof(verbs_dm) == 40);

// ibv_qp_ex grows at its end; what the library itself looks for behind it (comp_mask, then the XRC domain)
// moves with it. A QP of ours begins with this area, whatever the version, and keeps its own data behind it.
constexpr size_t kQpAreaBytes = 512;
constexpr uint32_t kQpMaskXrcd = 1;
constexpr uint32_t kQpMaskEx = 2;
constexpr size_t kWrAtomicWriteOffset = 344;  // function pointers of later versions
constexpr size_t kWrFlushOffset = 352;
inline constexpr std::array<uint32_t, 3> kQpCompMaskOffsets = {344, 352, 360};
static_assert(sizeof(ibv_qp) == 160 && sizeof(ibv_cq) == 128 && sizeof(ibv_cq_ex) == 288);
static_assert(offsetof(ibv_qp_ex, wr_start) == 320 && offsetof(ibv_qp_ex, wr_abort) == 336);

// ---- context
// -----------------------------------------------------------------------------------------------------

// verbs_context grows at its front and ends with ibv_context: its members are known by their distance from
// that.
static_assert(sizeof(ibv_context) == 328 && offsetof(ibv_context, cmd_fd) == 264);
constexpr size_t kPrivBeforeContext = 112;
// Room in front of our ibv_context: the largest verbs_context known, and some.
constexpr size_t kContextEnd = 1024;

// verbs_ex_private
constexpr size_t kPrivUseIoctlWrite = 20;
constexpr size_t kPrivOps = 24;

// ---- operations
// --------------------------------------------------------------------------------------------------

// The members of verbs_context_ops in their order: name, first version that has it, type. 34 stands for "34
// or before". Types that public headers of some version lack are void.
#define UROCE_VERBS_OPS(X)                                                                                 \
  X(advise_mr, 34, int(ibv_pd*, ibv_advise_mr_advice, uint32_t, ibv_sge*, uint32_t))                       \
  X(alloc_buf, 64, void())                                                                                 \
  X(alloc_dm, 34, ibv_dm*(ibv_context*, ibv_alloc_dm_attr*))                                               \
  X(alloc_dmah, 59, void())                                                                                \
  X(alloc_mw, 34, ibv_mw*(ibv_pd*, ibv_mw_type))                                                           \
  X(alloc_null_mr, 34, ibv_mr*(ibv_pd*))                                                                   \
  X(alloc_parent_domain, 34, ibv_pd*(ibv_context*, ibv_parent_domain_init_attr*))                          \
  X(alloc_pd, 34, ibv_pd*(ibv_context*))                                                                   \
  X(alloc_td, 34, ibv_td*(ibv_context*, ibv_td_init_attr*))                                                \
  X(async_event, 34, void(ibv_context*, ibv_async_event*))                                                 \
  X(attach_counters_point_flow, 34, int(ibv_counters*, ibv_counter_attach_attr*, ibv_flow*))               \
  X(attach_mcast, 34, int(ibv_qp*, const ibv_gid*, uint16_t))                                              \
  X(bind_mw, 34, int(ibv_qp*, ibv_mw*, ibv_mw_bind*))                                                      \
  X(close_xrcd, 34, int(ibv_xrcd*))                                                                        \
  X(cq_event, 34, void(ibv_cq*))                                                                           \
  X(create_ah, 34, ibv_ah*(ibv_pd*, ibv_ah_attr*))                                                         \
  X(create_counters, 34, ibv_counters*(ibv_context*, ibv_counters_init_attr*))                             \
  X(create_cq, 34, ibv_cq*(ibv_context*, int, ibv_comp_channel*, int))                                     \
  X(create_cq_ex, 34, ibv_cq_ex*(ibv_context*, ibv_cq_init_attr_ex*))                                      \
  X(create_flow, 34, ibv_flow*(ibv_qp*, ibv_flow_attr*))                                                   \
  X(create_flow_action_esp, 34, ibv_flow_action*(ibv_context*, ibv_flow_action_esp_attr*))                 \
  X(create_qp, 34, ibv_qp*(ibv_pd*, ibv_qp_init_attr*))                                                    \
  X(create_qp_ex, 34, ibv_qp*(ibv_context*, ibv_qp_init_attr_ex*))                                         \
  X(create_rwq_ind_table, 34, ibv_rwq_ind_table*(ibv_context*, ibv_rwq_ind_table_init_attr*))              \
  X(create_srq, 34, ibv_srq*(ibv_pd*, ibv_srq_init_attr*))                                                 \
  X(create_srq_ex, 34, ibv_srq*(ibv_context*, ibv_srq_init_attr_ex*))                                      \
  X(create_wq, 34, ibv_wq*(ibv_context*, ibv_wq_init_attr*))                                               \
  X(dealloc_dmah, 59, void())                                                                              \
  X(dealloc_mw, 34, int(ibv_mw*))                                                                          \
  X(dealloc_pd, 34, int(ibv_pd*))                                                                          \
  X(dealloc_td, 34, int(ibv_td*))                                                                          \
  X(dereg_mr, 34, int(verbs_mr*))                                                                          \
  X(destroy_ah, 34, int(ibv_ah*))                                                                          \
  X(destroy_counters, 34, int(ibv_counters*))                                                              \
  X(destroy_cq, 34, int(ibv_cq*))                                                                          \
  X(destroy_flow, 34, int(ibv_flow*))                                                                      \
  X(destroy_flow_action, 34, int(ibv_flow_action*))                                                        \
  X(destroy_qp, 34, int(ibv_qp*))                                                                          \
  X(destroy_rwq_ind_table, 34, int(ibv_rwq_ind_table*))                                                    \
  X(destroy_srq, 34, int(ibv_srq*))                                                                        \
  X(destroy_wq, 34, int(ibv_wq*))                                                                          \
  X(detach_mcast, 34, int(ibv_qp*, const ibv_gid*, uint16_t))                                              \
  X(dm_export_dmabuf_fd, 62, void())                                                                       \
  X(free_buf, 64, void())                                                                                  \
  X(free_context, 34, void(ibv_context*))                                                                  \
  X(free_dm, 34, int(ibv_dm*))                                                                             \
  X(get_srq_num, 34, int(ibv_srq*, uint32_t*))                                                             \
  X(import_dm, 35, ibv_dm*(ibv_context*, uint32_t))                                                        \
  X(import_mr, 34, ibv_mr*(ibv_pd*, uint32_t))                                                             \
  X(import_pd, 34, ibv_pd*(ibv_context*, uint32_t))                                                        \
  X(modify_cq, 34, int(ibv_cq*, ibv_modify_cq_attr*))                                                      \
  X(modify_flow_action_esp, 34, int(ibv_flow_action*, ibv_flow_action_esp_attr*))                          \
  X(modify_qp, 34, int(ibv_qp*, ibv_qp_attr*, int))                                                        \
  X(modify_qp_rate_limit, 34, int(ibv_qp*, ibv_qp_rate_limit_attr*))                                       \
  X(modify_srq, 34, int(ibv_srq*, ibv_srq_attr*, int))                                                     \
  X(modify_wq, 34, int(ibv_wq*, ibv_wq_attr*))                                                             \
  X(open_qp, 34, ibv_qp*(ibv_context*, ibv_qp_open_attr*))                                                 \
  X(open_xrcd, 34, ibv_xrcd*(ibv_context*, ibv_xrcd_init_attr*))                                           \
  X(poll_cq, 34, int(ibv_cq*, int, ibv_wc*))                                                               \
  X(post_recv, 34, int(ibv_qp*, ibv_recv_wr*, ibv_recv_wr**))                                              \
  X(post_send, 34, int(ibv_qp*, ibv_send_wr*, ibv_send_wr**))                                              \
  X(post_srq_ops, 34, int(ibv_srq*, ibv_ops_wr*, ibv_ops_wr**))                                            \
  X(post_srq_recv, 34, int(ibv_srq*, ibv_recv_wr*, ibv_recv_wr**))                                         \
  X(query_device_ex, 34, int(ibv_context*, const ibv_query_device_ex_input*, ibv_device_attr_ex*, size_t)) \
  X(query_ece, 34, int(ibv_qp*, ibv_ece*))                                                                 \
  X(query_port, 34, int(ibv_context*, uint8_t, ibv_port_attr*))                                            \
  X(query_port_speed, 62, int(ibv_context*, uint32_t, uint64_t*))                                          \
  X(query_qp, 34, int(ibv_qp*, ibv_qp_attr*, int, ibv_qp_init_attr*))                                      \
  X(query_qp_data_in_order, 36, int(ibv_qp*, ibv_wr_opcode, uint32_t))                                     \
  X(query_rt_values, 34, int(ibv_context*, ibv_values_ex*))                                                \
  X(query_srq, 34, int(ibv_srq*, ibv_srq_attr*))                                                           \
  X(read_counters, 34, int(ibv_counters*, uint64_t*, uint32_t, uint32_t))                                  \
  X(reg_dm_mr, 34, ibv_mr*(ibv_pd*, ibv_dm*, uint64_t, size_t, unsigned))                                  \
  X(reg_dmabuf_mr, 34, ibv_mr*(ibv_pd*, uint64_t, size_t, uint64_t, int, int))                             \
  X(reg_mr, 34, ibv_mr*(ibv_pd*, void*, size_t, uint64_t, int))                                            \
  X(reg_mr_ex, 59, void())                                                                                 \
  X(req_notify_cq, 34, int(ibv_cq*, int))                                                                  \
  X(rereg_mr, 34, int(verbs_mr*, int, ibv_pd*, void*, size_t, int))                                        \
  X(resize_cq, 34, int(ibv_cq*, int))                                                                      \
  X(set_ece, 34, int(ibv_qp*, ibv_ece*))                                                                   \
  X(unimport_dm, 35, void(ibv_dm*))                                                                        \
  X(unimport_mr, 34, void(ibv_mr*))                                                                        \
  X(unimport_pd, 34, void(ibv_pd*))

enum class Op : uint8_t {
#define UROCE_OP_ENUM(name, since, ...) name,
  UROCE_VERBS_OPS(UROCE_OP_ENUM)
#undef UROCE_OP_ENUM
      kCount
};
constexpr size_t kOpCount = static_cast<size_t>(Op::kCount);

template <Op op>
struct OpType;
using ibv_gid = union ::ibv_gid;
#define UROCE_OP_TYPE(name, since, ...) \
  template <>                           \
  struct OpType<Op::name> {             \
    using Function = __VA_ARGS__;       \
  };
UROCE_VERBS_OPS(UROCE_OP_TYPE)
#undef UROCE_OP_TYPE

inline constexpr std::array<uint8_t, kOpCount> kOpSince = {
#define UROCE_OP_SINCE(name, since, ...) since,
    UROCE_VERBS_OPS(UROCE_OP_SINCE)
#undef UROCE_OP_SINCE
};

// ---- layouts
// -----------------------------------------------------------------------------------------------------

// One layout of the private ABI.
struct Layout {
  uint32_t first_version;  // of rdma-core that has it
  uint32_t last_version;
  uint32_t pabi_min;  // ABI numbers it occurs under
  uint32_t pabi_max;
  uint32_t op_count;
  uint32_t context_offset;  // of ibv_context in verbs_context

  constexpr bool has(Op op) const { return kOpSince[static_cast<size_t>(op)] <= first_version; }
  // Index in verbs_context_ops, which has the members of this version only.
  constexpr uint32_t index_of(Op op) const {
    uint32_t index = 0;
    for (size_t i = 0; i < static_cast<size_t>(op); ++i) index += kOpSince[i] <= first_version;
    return index;
  }
  constexpr uint32_t count_ops() const {
    uint32_t count = 0;
    for (uint8_t since : kOpSince) count += since <= first_version;
    return count;
  }
};

inline constexpr std::array<Layout, 6> kLayouts = {{
    {34, 34, 34, 34, 73, 320},
    {35, 35, 34, 34, 75, 320},
    {36, 58, 34, 57, 76, 320},
    {59, 61, 59, 59, 79, 344},
    {62, 63, 59, 59, 81, 352},
    {64, 64, 64, 64, 83, 368},
}};
inline constexpr std::array<uint32_t, 4> kPabiNumbers = {34, 57, 59, 64};

constexpr bool layouts_are_consistent() {
  for (const Layout& layout : kLayouts) {
    if (layout.count_ops() != layout.op_count || layout.context_offset + sizeof(ibv_context) > kContextEnd)
      return false;
  }
  return true;
}
static_assert(layouts_are_consistent());
static_assert(kLayouts[2].index_of(Op::poll_cq) == 53 && kLayouts[2].index_of(Op::post_send) == 55 &&
              kLayouts[2].index_of(Op::req_notify_cq) == 69);

}  // namespace uroce::verbs::abi
