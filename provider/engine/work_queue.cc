// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/engine/work_queue.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <new>

namespace uroce::engine {

static constexpr size_t kLine = 64;

SlotRing::SlotRing(uint32_t capacity, size_t slot_bytes)
    : capacity_(capacity),
      mask_(std::bit_ceil(std::max(capacity, 1u)) - 1),
      stride_((slot_bytes + kLine - 1) / kLine * kLine) {
  const size_t bytes = (static_cast<size_t>(mask_) + 1) * stride_;
  memory_.reset(static_cast<std::byte*>(::operator new[](bytes, std::align_val_t{kLine})));
  std::memset(memory_.get(), 0, bytes);  // touches every page now, not under traffic
}

SendQueue::SendQueue(uint32_t capacity, uint32_t max_sge, uint32_t max_inline)
    : ring_(capacity, sizeof(SendWqe) + std::max<size_t>(max_sge * sizeof(SgEntry), max_inline)) {}

ReceiveQueue::ReceiveQueue(uint32_t capacity, uint32_t max_sge)
    : ring_(capacity, sizeof(RecvWqe) + max_sge * sizeof(SgEntry)), max_sge_(max_sge) {}

int ReceiveQueue::post(const RecvRequest& request) {
  if (request.sges.size() > max_sge_) return EINVAL;
  if (ring_.full()) return ENOMEM;
  auto& wqe = *static_cast<RecvWqe*>(ring_.next_slot());
  wqe.wr_id = request.wr_id;
  wqe.num_sge = static_cast<uint32_t>(request.sges.size());
  std::copy(request.sges.begin(), request.sges.end(), wqe.sges());
  ring_.publish();
  return 0;
}

}  // namespace uroce::engine
