// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/verbs/cq.h"

#include <utility>

#include "kmod-shim/uapi/uroce_abi.h"
#include "provider/runtime/clock.h"
#include "provider/verbs/boundary.h"
#include "provider/verbs/events.h"

namespace uroce::verbs {

CqPairGuard::CqPairGuard(CompletionQueue* a, CompletionQueue* b) : first_(a), second_(a == b ? nullptr : b) {
  if (second_ != nullptr && (first_ == nullptr || second_ < first_)) std::swap(first_, second_);
  if (first_ != nullptr) first_->lock.lock();
  if (second_ != nullptr) second_->lock.lock();
}

CqPairGuard::~CqPairGuard() {
  if (second_ != nullptr) second_->lock.unlock();
  if (first_ != nullptr) first_->lock.unlock();
}

namespace {

struct CqRequest {
  uint32_t entries;
  ibv_comp_channel* channel;
  uint32_t comp_vector;
  bool ignore_overrun;
};

int create_command(CompletionQueue& cq, const CqRequest& wanted, ib_uverbs_create_cq_resp& response,
                   uroce_create_cq_resp& ours) {
  ib_uverbs_create_cq request{};
  request.user_handle = reinterpret_cast<uintptr_t>(&cq);
  request.cqe = wanted.entries;
  request.comp_vector = wanted.comp_vector;
  request.comp_channel = wanted.channel != nullptr ? wanted.channel->fd : -1;
  return call(cq.owner->port(), IB_USER_VERBS_CMD_CREATE_CQ, request, response, ours);
}

int destroy_command(CompletionQueue& cq, ib_uverbs_destroy_cq_resp& response) {
  ib_uverbs_destroy_cq request{};
  request.cq_handle = cq.base.handle;
  return call(cq.owner->port(), IB_USER_VERBS_CMD_DESTROY_CQ, request, response);
}

// Command, then engine.
CompletionQueue* create(ibv_context* base, const CqRequest& wanted) {
  Context& context = Context::of(base);
  if (int error = context.unusable(); error != 0) return fail(error);
  if (wanted.entries == 0 || wanted.entries > UROCE_MAX_CQE) return fail(EINVAL);
  if (wanted.comp_vector >= static_cast<uint32_t>(base->num_comp_vectors)) return fail(EINVAL);
  auto cq = std::make_unique<CompletionQueue>();
  cq->use.begin(context);
  cq->owner = &context;
  ib_uverbs_create_cq_resp response{};
  uroce_create_cq_resp ours{};
  if (int error = create_command(*cq, wanted, response, ours); error != 0) return fail(error);
  cq->base.context = base;
  cq->base.handle = response.cq_handle;
  cq->base.cqe = static_cast<int>(response.cqe);
  cq->wallclock_offset_ns = runtime::wallclock_offset_ns();
  const int error = context.data().control([&](engine::Engine& engine, engine::Time) {
    return engine.create_cq(ours.cq_id, response.cqe, wanted.ignore_overrun,
                            reinterpret_cast<uintptr_t>(cq.get()), cq->ring);
  });
  if (error != 0) {
    ib_uverbs_destroy_cq_resp ignored{};
    destroy_command(*cq, ignored);
    return fail(error);
  }
  return cq.release();
}

}  // namespace

ibv_cq* create_cq(ibv_context* base, int entries, ibv_comp_channel* channel, int comp_vector) {
  if (entries <= 0 || comp_vector < 0) return fail(EINVAL);
  CompletionQueue* cq =
      create(base, {static_cast<uint32_t>(entries), channel, static_cast<uint32_t>(comp_vector), false});
  return cq != nullptr ? &cq->base : nullptr;
}

ibv_cq_ex* create_cq_ex(ibv_context* base, ibv_cq_init_attr_ex* attributes) {
  constexpr uint32_t known_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
  constexpr uint32_t known_flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
  if ((attributes->comp_mask & ~known_mask) != 0 || (attributes->wc_flags & ~kSupportedWcFlags) != 0) {
    return fail(EOPNOTSUPP);
  }
  const uint32_t flags = (attributes->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0 ? attributes->flags : 0;
  if ((flags & ~known_flags) != 0) return fail(EOPNOTSUPP);
  CompletionQueue* cq = create(base, {attributes->cqe, attributes->channel, attributes->comp_vector,
                                      (flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN) != 0});
  if (cq == nullptr) return nullptr;
  cq->single_threaded = (flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED) != 0;
  cq->extended = true;
  install_extended_polling(*cq, attributes->wc_flags);
  return &cq->ex;
}

int resize_cq(ibv_cq* base, int entries) {
  CompletionQueue& cq = CompletionQueue::of(base);
  if (int error = cq.owner->unusable(); error != 0) return error;
  if (entries <= 0 || static_cast<uint32_t>(entries) > UROCE_MAX_CQE) return EINVAL;
  const auto resize_ring = [&](uint32_t capacity) {
    const CqPairGuard guard(&cq, nullptr);
    return cq.owner->data().control([&](engine::Engine&, engine::Time) { return cq.ring->resize(capacity); });
  };
  // The ring decides: it knows how many completions wait.
  const auto old = static_cast<uint32_t>(base->cqe);
  if (int error = resize_ring(static_cast<uint32_t>(entries)); error != 0) return error;
  ib_uverbs_resize_cq request{};
  request.cq_handle = base->handle;
  request.cqe = static_cast<uint32_t>(entries);
  ib_uverbs_resize_cq_resp response{};
  int error = call(cq.owner->port(), IB_USER_VERBS_CMD_RESIZE_CQ, request, response);
  if (error == 0 && response.cqe > request.cqe) error = resize_ring(response.cqe);
  if (error != 0) {
    resize_ring(old);
    return error;
  }
  base->cqe = static_cast<int>(response.cqe);
  return 0;
}

int modify_cq(ibv_cq* base, ibv_modify_cq_attr* attributes) {
  CompletionQueue& cq = CompletionQueue::of(base);
  if (int error = cq.owner->unusable(); error != 0) return error;
  if (attributes->attr_mask == 0) return EINVAL;
  if (attributes->attr_mask != IBV_CQ_ATTR_MODERATE) return EOPNOTSUPP;
  return cq.owner->data().control([&](engine::Engine& engine, engine::Time) {
    engine.moderate_cq(cq.ring, attributes->moderate.cq_count, attributes->moderate.cq_period);
    return 0;
  });
}

int destroy_cq(ibv_cq* base) {
  CompletionQueue& cq = CompletionQueue::of(base);
  if (cq.owner->closed()) {
    delete &cq;
    return 0;
  }
  if (int error = cq.owner->refused(); error != 0) return error;
  const uint32_t id = cq.ring->id();
  const int error = cq.owner->data().control(
      [&](engine::Engine& engine, engine::Time) { return engine.destroy_cq(cq.ring); });
  if (error != 0) return error;
  cq.owner->data().forget_events(UROCE_KICK_COMPLETION, id);
  cq.owner->data().forget_events(UROCE_KICK_CQ_EVENT, id);
  ib_uverbs_destroy_cq_resp response{};
  if (destroy_command(cq, response) == 0) {
    wait_until_acknowledged(base->mutex, base->cond, base->comp_events_completed,
                            response.comp_events_reported);
    wait_until_acknowledged(base->mutex, base->cond, base->async_events_completed,
                            response.async_events_reported);
  }
  delete &cq;
  return 0;
}

}  // namespace uroce::verbs
