// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/verbs/shared_context.h"

#include <algorithm>
#include <cerrno>

#include "provider/verbs/command.h"
#include "provider/verbs/dm.h"

namespace uroce::verbs {

void KickLine::add(CommandPort* port) {
  const std::lock_guard guard(lock_);
  ports_.push_back(port);
}

void KickLine::remove(CommandPort* port) {
  const std::lock_guard guard(lock_);
  std::erase(ports_, port);
}

int KickLine::send(const uroce_kick& kick) {
  const std::lock_guard guard(lock_);
  return ports_.empty() ? ENODEV : call(*ports_.front(), IB_USER_VERBS_CMD_PEEK_CQ, kick);
}

void ImportTable::add_pd(uint32_t handle) {
  const std::lock_guard guard(lock_);
  pds_.insert(handle);
}

void ImportTable::remove_pd(uint32_t handle) {
  const std::lock_guard guard(lock_);
  pds_.erase(handle);
}

bool ImportTable::has_pd(uint32_t handle) {
  const std::lock_guard guard(lock_);
  return pds_.contains(handle);
}

void ImportTable::set_region(uint32_t handle, const Region& region) {
  const std::lock_guard guard(lock_);
  regions_[handle] = region;
}

void ImportTable::remove_region(uint32_t handle) {
  const std::lock_guard guard(lock_);
  regions_.erase(handle);
}

std::optional<ImportTable::Region> ImportTable::region(uint32_t handle) {
  const std::lock_guard guard(lock_);
  const auto found = regions_.find(handle);
  return found != regions_.end() ? std::optional(found->second) : std::nullopt;
}

uint32_t ImportTable::add_memory(std::shared_ptr<DeviceMemoryBlock> block) {
  const std::lock_guard guard(lock_);
  memories_.emplace(++last_memory_, std::move(block));
  return last_memory_;
}

void ImportTable::remove_memory(uint32_t handle) {
  const std::lock_guard guard(lock_);
  memories_.erase(handle);
}

std::shared_ptr<DeviceMemoryBlock> ImportTable::memory(uint32_t handle) {
  const std::lock_guard guard(lock_);
  const auto found = memories_.find(handle);
  return found != memories_.end() ? found->second : nullptr;
}

bool SharedContext::take_device_memory(uint64_t bytes) {
  uint64_t used = device_memory.load(std::memory_order_relaxed);
  do {
    if (bytes > kMaxDeviceMemory - used) return false;
  } while (!device_memory.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
  return true;
}

}  // namespace uroce::verbs
