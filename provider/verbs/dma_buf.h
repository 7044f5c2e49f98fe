// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// A dma-buf in our address space. The CPU is our DMA engine: what an exporter does not let programs map
// cannot be registered.
#pragma once

#include <cstddef>
#include <cstdint>

namespace uroce::verbs {

class DmaBufMapping {
 public:
  DmaBufMapping() = default;
  ~DmaBufMapping();
  DmaBufMapping(const DmaBufMapping&) = delete;

  // Makes bytes [offset, offset + length) reachable, once, and tells the exporter that the CPU reads (with
  // `write`: and writes) it until the end. 0 or errno; EBADF: no descriptor, EINVAL: none of a dma-buf, or
  // not within it.
  int map(int fd, uint64_t offset, size_t length, bool write);
  // Where `offset`, as given to map() with success, lies.
  void* at(uint64_t offset) const;

 private:
  void* start_ = nullptr;
  size_t bytes_ = 0;
  int fd_ = -1;  // our own: the program may close its descriptor
  uint64_t access_ = 0;
};

}  // namespace uroce::verbs
