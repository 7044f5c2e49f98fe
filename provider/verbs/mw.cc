// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/verbs/mw.h"

#include <memory>
#include <mutex>

#include "provider/verbs/boundary.h"
#include "provider/verbs/context.h"
#include "provider/verbs/pd.h"
#include "provider/verbs/qp.h"
#include "provider/verbs/work_opcode.h"

namespace uroce::verbs {

namespace {

struct MemoryWindow : ibv_mw {
  ContextUse use;
};

constexpr uint32_t kVariant = 0xff;  // of a key; what stands above it names the window
// The right to local writes is accepted and means nothing: it is the region's.
constexpr unsigned kWindowAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                                   IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_ZERO_BASED;

bool describe(const ibv_mw* mw, uint32_t rkey, const ibv_mw_bind_info& info, engine::SendRequest::Bind& out) {
  if ((info.mw_access_flags & ~kWindowAccess) != 0 || ((rkey ^ mw->rkey) & ~kVariant) != 0) return false;
  if (info.mr == nullptr && info.length != 0) return false;
  out.window_rkey = mw->rkey;
  out.new_rkey = rkey;
  out.region_lkey = info.mr != nullptr ? info.mr->lkey : 0;
  out.va = info.addr;
  out.length = info.length;
  out.access = info.mw_access_flags & ~static_cast<unsigned>(IBV_ACCESS_LOCAL_WRITE);
  return true;
}

}  // namespace

ibv_mw* alloc_mw(ibv_pd* base, ibv_mw_type type) {
  ProtectionDomain& pd = ProtectionDomain::of(base);
  Context& context = Context::of(pd.context);
  if (int error = context.unusable(); error != 0) return fail(error);
  if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2) return fail(EINVAL);
  auto mw = std::make_unique<MemoryWindow>();
  ib_uverbs_alloc_mw request{};
  request.pd_handle = pd.handle;
  request.mw_type = static_cast<uint8_t>(type);
  ib_uverbs_alloc_mw_resp response{};
  if (int error = call(context.port(), IB_USER_VERBS_CMD_ALLOC_MW, request, response); error != 0)
    return fail(error);
  const int error = context.data().control([&](engine::Engine& engine, engine::Time) {
    return engine.register_window(response.rkey, pd.number(), type == IBV_MW_TYPE_2);
  });
  if (error != 0) {
    call(context.port(), IB_USER_VERBS_CMD_DEALLOC_MW, ib_uverbs_dealloc_mw{.mw_handle = response.mw_handle});
    return fail(error);
  }
  mw->use.begin(context);
  mw->context = pd.context;
  mw->pd = base;
  mw->rkey = response.rkey;
  mw->handle = response.mw_handle;
  mw->type = type;
  return mw.release();
}

int dealloc_mw(ibv_mw* mw) {
  Context& context = Context::of(mw->context);
  if (context.closed()) {
    delete static_cast<MemoryWindow*>(mw);
    return 0;
  }
  if (int error = context.refused(); error != 0) return error;
  const uint32_t rkey = mw->rkey;
  const int error = context.data().control(
      [&](engine::Engine& engine, engine::Time) { return engine.deregister_window(rkey); });
  if (error != 0) return error;
  call(context.port(), IB_USER_VERBS_CMD_DEALLOC_MW, ib_uverbs_dealloc_mw{.mw_handle = mw->handle});
  delete static_cast<MemoryWindow*>(mw);
  return 0;
}

bool describe_bind(const ibv_mw* mw, uint32_t rkey, const ibv_mw_bind_info& info,
                   engine::SendRequest::Bind& out) {
  return mw != nullptr && mw->type == IBV_MW_TYPE_2 && describe(mw, rkey, info, out);
}

int bind_mw(ibv_qp* base, ibv_mw* mw, ibv_mw_bind* bind) noexcept {
  QueuePair& qp = QueuePair::of(base);
  if (int error = qp.owner->refused(); error != 0) return error;
  if (mw->type != IBV_MW_TYPE_1) return EINVAL;
  const uint32_t rkey = ibv_inc_rkey(mw->rkey);
  engine::SendRequest request;
  request.wr_id = bind->wr_id;
  request.opcode = engine::WrOpcode::bind_window;
  request.flags = engine_flags(bind->send_flags);
  request.flags.inline_data = false;
  if (!describe(mw, rkey, bind->bind_info, request.bind)) return EINVAL;
  int error = 0;
  {
    const std::lock_guard guard(qp.send_lock);
    error = qp.queue->post_send(request);
  }
  if (error != 0) return error;
  mw->rkey = rkey;
  qp.owner->data().posted(qp.queue);
  return 0;
}

}  // namespace uroce::verbs
