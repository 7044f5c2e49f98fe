// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The table of operations, in the order of the library that loaded us. What is not here stays the library's
// default: EOPNOTSUPP.
#include <array>

#include "provider/verbs/ah.h"
#include "provider/verbs/boundary.h"
#include "provider/verbs/context.h"
#include "provider/verbs/cq.h"
#include "provider/verbs/dm.h"
#include "provider/verbs/library.h"
#include "provider/verbs/mr.h"
#include "provider/verbs/mw.h"
#include "provider/verbs/pd.h"
#include "provider/verbs/qp.h"
#include "provider/verbs/query.h"
#include "provider/verbs/srq.h"
#include "provider/verbs/xrc.h"

namespace uroce::verbs {

namespace {

using abi::Op;

struct Table {
  const abi::Layout& layout;
  // More than any layout has: the library reads as many as it knows.
  std::array<const void*, abi::kOpCount> functions{};

  template <Op op>
  void put(typename abi::OpType<op>::Function* function) {
    if (layout.has(op)) functions[layout.index_of(op)] = reinterpret_cast<const void*>(function);
  }
  template <Op op, auto function>
  void guard() {
    put<op>(Boundary<function>::call);
  }
};

void put_data_path(Table& table) {
  table.put<Op::poll_cq>(poll_cq);
  table.put<Op::post_recv>(post_recv);
  table.put<Op::post_send>(post_send);
  table.put<Op::post_srq_recv>(post_srq_recv);
  table.put<Op::req_notify_cq>(req_notify_cq);
  table.put<Op::bind_mw>(bind_mw);
}

void put_memory(Table& table) {
  table.guard<Op::advise_mr, advise_mr>();
  table.guard<Op::alloc_dm, alloc_dm>();
  table.guard<Op::alloc_mw, alloc_mw>();
  table.guard<Op::alloc_null_mr, alloc_null_mr>();
  table.guard<Op::dealloc_mw, dealloc_mw>();
  table.guard<Op::dereg_mr, dereg_mr>();
  table.guard<Op::free_dm, free_dm>();
  table.guard<Op::import_dm, import_dm>();
  table.guard<Op::import_mr, import_mr>();
  table.guard<Op::import_pd, import_pd>();
  table.guard<Op::unimport_dm, unimport_dm>();
  table.guard<Op::unimport_mr, unimport_mr>();
  table.guard<Op::unimport_pd, unimport_pd>();
  table.guard<Op::reg_dm_mr, reg_dm_mr>();
  table.guard<Op::reg_dmabuf_mr, reg_dmabuf_mr>();
  table.guard<Op::reg_mr, reg_mr>();
  table.guard<Op::rereg_mr, rereg_mr>();
}

void put_queues(Table& table) {
  table.guard<Op::attach_mcast, attach_mcast>();
  table.guard<Op::create_cq, create_cq>();
  table.guard<Op::create_cq_ex, create_cq_ex>();
  table.guard<Op::create_qp, create_qp>();
  table.guard<Op::create_qp_ex, create_qp_ex>();
  table.guard<Op::create_srq, create_srq>();
  table.guard<Op::create_srq_ex, create_srq_ex>();
  table.guard<Op::destroy_cq, destroy_cq>();
  table.guard<Op::destroy_qp, destroy_qp>();
  table.guard<Op::destroy_srq, destroy_srq>();
  table.guard<Op::detach_mcast, detach_mcast>();
  table.guard<Op::get_srq_num, get_srq_num>();
  table.guard<Op::modify_cq, modify_cq>();
  table.guard<Op::modify_qp, modify_qp>();
  table.guard<Op::modify_srq, modify_srq>();
  table.guard<Op::open_qp, open_qp>();
  table.guard<Op::query_qp, query_qp>();
  table.guard<Op::query_srq, query_srq>();
  table.guard<Op::resize_cq, resize_cq>();
}

void put_rest(Table& table) {
  table.guard<Op::alloc_parent_domain, alloc_parent_domain>();
  table.guard<Op::alloc_pd, alloc_pd>();
  table.guard<Op::alloc_td, alloc_td>();
  table.guard<Op::close_xrcd, close_xrcd>();
  table.guard<Op::create_ah, create_ah>();
  table.guard<Op::dealloc_pd, dealloc_pd>();
  table.guard<Op::dealloc_td, dealloc_td>();
  table.guard<Op::destroy_ah, destroy_ah>();
  table.guard<Op::free_context, free_context>();
  table.guard<Op::open_xrcd, open_xrcd>();
  table.guard<Op::query_device_ex, query_device_ex>();
  table.guard<Op::query_port, query_port>();
  table.guard<Op::query_rt_values, query_rt_values>();
}

}  // namespace

void install_operations(ibv_context* context) {
  const Library& lib = library();
  Table table{*lib.layout};
  put_data_path(table);
  put_memory(table);
  put_queues(table);
  put_rest(table);
  lib.set_ops(private_context(context), table.functions.data());
}

}  // namespace uroce::verbs
