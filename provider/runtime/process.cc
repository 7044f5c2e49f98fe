// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/runtime/process.h"

#include <pthread.h>
#include <sys/mman.h>

#include <atomic>
#include <new>

namespace uroce::runtime {
namespace {

constexpr size_t kPage = 4096;

// Zero in every child until it asks: by the kernel where it can wipe on fork, by pthread_atfork elsewhere
// (which misses raw clone()).
std::atomic<uint32_t>* current = nullptr;
// Not wiped: a child counts on from its parent's number.
std::atomic<uint32_t> last{0};

bool watch_forks() {
  void* page = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return false;
  const bool wiped = madvise(page, kPage, MADV_WIPEONFORK) == 0;
  current = new (page) std::atomic<uint32_t>(0);
  if (wiped) return true;
  return pthread_atfork(nullptr, nullptr, [] { current->store(0, std::memory_order_relaxed); }) == 0;
}

}  // namespace

uint32_t process_generation() {
  static const bool watching = watch_forks();
  if (!watching) return 0;
  uint32_t known = current->load(std::memory_order_relaxed);
  if (known != 0) return known;
  const uint32_t fresh = last.fetch_add(1, std::memory_order_relaxed) + 1;
  return current->compare_exchange_strong(known, fresh, std::memory_order_relaxed) ? fresh : known;
}

bool is_generation(uint32_t generation) {
  return current != nullptr && current->load(std::memory_order_relaxed) == generation;
}

}  // namespace uroce::runtime
