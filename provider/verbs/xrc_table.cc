// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/verbs/xrc_table.h"

#include "provider/verbs/qp.h"

namespace uroce::verbs {

uint32_t XrcTable::enter_domain(dev_t device, ino_t inode) {
  const std::lock_guard guard(lock_);
  for (auto& [number, domain] : domains_) {
    if (!domain.shared || domain.device != device || domain.inode != inode) continue;
    ++domain.opens;
    return number;
  }
  domains_.emplace(++last_number_, Domain{true, device, inode, 1});
  return last_number_;
}

uint32_t XrcTable::enter_private_domain() {
  const std::lock_guard guard(lock_);
  domains_.emplace(++last_number_, Domain{.opens = 1});
  return last_number_;
}

void XrcTable::leave_domain(uint32_t number) {
  const std::lock_guard guard(lock_);
  const auto found = domains_.find(number);
  if (found != domains_.end() && --found->second.opens == 0) domains_.erase(found);
}

void XrcTable::add_target(QueuePair& qp) {
  const std::lock_guard guard(lock_);
  targets_[qp.base.qp_num] = {qp.queue, qp.shared, qp.xrc_domain};
}

bool XrcTable::join_target(QueuePair& handle, uint32_t qpn, uint32_t domain) {
  const std::lock_guard guard(lock_);
  const auto found = targets_.find(qpn);
  if (found == targets_.end() || found->second.domain != domain) return false;
  handle.queue = found->second.queue;
  handle.shared = found->second.shared;
  ++handle.shared->handles;
  return true;
}

bool XrcTable::leave_target(QueuePair& qp) {
  const std::lock_guard guard(lock_);
  if (--qp.shared->handles != 0) return false;
  targets_.erase(qp.base.qp_num);
  return true;
}

std::unique_ptr<QueuePair> XrcTable::keep_creator(std::unique_ptr<QueuePair>& handle, bool last) {
  const std::lock_guard guard(lock_);
  QpShared& shared = *handle->shared;
  if (last) return std::move(shared.creator);
  if (handle->created) shared.creator = std::move(handle);
  return nullptr;
}

}  // namespace uroce::verbs
