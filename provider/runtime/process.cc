// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/runtime/process.h"

#include <pthread.h>
#include <sys/mman.h>

#include <atomic>

namespace uroce::runtime {
namespace {

constexpr size_t kPage = 4096;
constexpr int kParent = 1;

// Zero in every child: by the kernel where it can wipe on fork, by pthread_atfork elsewhere (which misses raw
// clone()).
std::atomic<int>* generation = nullptr;

}  // namespace

bool watch_forks() {
  static const bool watching = [] {
    void* page = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return false;
    const bool wiped = madvise(page, kPage, MADV_WIPEONFORK) == 0;
    generation = new (page) std::atomic<int>(kParent);
    if (wiped) return true;
    return pthread_atfork(nullptr, nullptr, [] { generation->store(0, std::memory_order_relaxed); }) == 0;
  }();
  return watching;
}

bool in_forked_child() {
  return generation != nullptr && generation->load(std::memory_order_relaxed) != kParent;
}

}  // namespace uroce::runtime
