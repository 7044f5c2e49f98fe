// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// What an opened device shares with its imports (ibv_import_device(3)) in the same process: the data path,
// and what can be imported.
#pragma once

#include <rdma/ib_user_verbs.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "kmod-shim/uapi/uroce_abi.h"
#include "provider/runtime/context.h"
#include "provider/verbs/xrc_table.h"

namespace uroce::verbs {

class CommandPort;
struct DeviceMemoryBlock;

// Over which descriptor kicks go: of one of the contexts that are open, so that closing the first does no
// harm to the others.
class KickLine {
 public:
  void add(CommandPort* port);
  void remove(CommandPort* port);
  int send(const uroce_kick& kick);  // any thread; ENODEV when all are closed

 private:
  std::mutex lock_;
  std::vector<CommandPort*> ports_;
};

// Objects by their handles. Each member may be called by any thread.
class ImportTable {
 public:
  struct Region {
    uint32_t pd = 0;
    uint32_t lkey = 0;
    uint32_t rkey = 0;
    uint64_t length = 0;
  };
  void add_pd(uint32_t handle);
  void remove_pd(uint32_t handle);
  bool has_pd(uint32_t handle);
  void set_region(uint32_t handle, const Region& region);
  void remove_region(uint32_t handle);
  std::optional<Region> region(uint32_t handle);
  uint32_t add_memory(std::shared_ptr<DeviceMemoryBlock> block);  // the handle: the kernel knows none of it
  void remove_memory(uint32_t handle);
  std::shared_ptr<DeviceMemoryBlock> memory(uint32_t handle);

 private:
  std::mutex lock_;
  std::unordered_set<uint32_t> pds_;
  std::unordered_map<uint32_t, Region> regions_;
  std::unordered_map<uint32_t, std::shared_ptr<DeviceMemoryBlock>> memories_;
  uint32_t last_memory_ = 0;
};

struct SharedContext {
  ib_uverbs_query_device_resp device_attributes{};  // they do not change while the device lives
  int num_comp_vectors = 1;
  XrcTable xrc;
  ImportTable imports;
  std::atomic<uint64_t> device_memory{0};  // bytes allocated
  KickLine kicks;
  std::unique_ptr<runtime::Context> data;  // last: its threads kick until it is gone

  // Device memory is counted, not owned, here. False: not so much is left.
  bool take_device_memory(uint64_t bytes);
  void give_device_memory(uint64_t bytes) { device_memory.fetch_sub(bytes, std::memory_order_relaxed); }
};

}  // namespace uroce::verbs
