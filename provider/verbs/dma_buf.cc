// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/verbs/dma_buf.h"

#include <fcntl.h>
#include <linux/dma-buf.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

namespace uroce::verbs {

namespace {

// 0, or errno: ENOTTY where the descriptor is of something else.
int announce(int fd, uint64_t flags) {
  dma_buf_sync sync{.flags = flags};
  int result;
  do {
    result = ioctl(fd, DMA_BUF_IOCTL_SYNC, &sync);
  } while (result != 0 && (errno == EINTR || errno == EAGAIN));
  return result == 0 ? 0 : errno;
}

}  // namespace

int DmaBufMapping::map(int fd, uint64_t offset, size_t length, bool write) {
  if (offset + length < offset) return EINVAL;
  const int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (own < 0) return errno;
  const uint64_t access = write ? DMA_BUF_SYNC_RW : DMA_BUF_SYNC_READ;
  if (const int error = announce(own, DMA_BUF_SYNC_START | access); error != 0) {
    close(own);
    return error == ENOTTY ? EINVAL : error;
  }
  fd_ = own;
  access_ = access;
  // From its beginning: exporters that are built on drm_gem_shmem (vgem, virtio-gpu ...) ignore mmap's
  // offset.
  const uint64_t bytes = offset + length;
  void* const start = mmap(nullptr, bytes, PROT_READ | (write ? PROT_WRITE : 0), MAP_SHARED, own, 0);
  if (start == MAP_FAILED) return errno;
  start_ = start;
  bytes_ = bytes;
  return 0;
}

void* DmaBufMapping::at(uint64_t offset) const {
  return static_cast<char*>(start_) + offset;
}

DmaBufMapping::~DmaBufMapping() {
  if (start_ != nullptr) munmap(start_, bytes_);
  if (fd_ < 0) return;
  announce(fd_, DMA_BUF_SYNC_END | access_);
  close(fd_);
}

}  // namespace uroce::verbs
