// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// ibv_reg_mr(3), ibv_rereg_mr(3), ibv_alloc_mw(3), ibv_alloc_dm(3): rights, bounds, and what happens to a
// key's users.
#include <fcntl.h>
#include <libdrm/drm.h>
#include <libdrm/drm_mode.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "tests/verbs/conformance/pair.h"

namespace conformance {
namespace {

class Memory : public Pair {
 protected:
  // One WRITE of 8 bytes; the status of its completion.
  ibv_wc_status write(uint64_t remote, uint32_t rkey) {
    ibv_sge list = sge(0, 8);
    ibv_send_wr wr = send_wr(IBV_WR_RDMA_WRITE, &list);
    wr.wr.rdma = {remote, rkey};
    EXPECT_EQ(post(left.get(), wr), 0);
    return await(queue.get(), 1).front().status;
  }
  void reconnect() {
    for (ibv_qp* each : {left.get(), right.get()}) {
      ibv_qp_attr reset{};
      reset.qp_state = IBV_QPS_RESET;
      ASSERT_EQ(ibv_modify_qp(each, &reset, IBV_QP_STATE), 0);
    }
    connect(left.get(), right.get());
  }
  int error_of(void* address, size_t length, int access) {
    errno = 0;
    ibv_mr* const made = ibv_reg_mr(pd.get(), address, length, access);
    if (made == nullptr) return errno;
    EXPECT_EQ(ibv_dereg_mr(made), 0);
    return 0;
  }
  static uint64_t address(const std::vector<char>& bytes) {
    return reinterpret_cast<uintptr_t>(bytes.data());
  }
};

TEST_F(Memory, memory_that_is_not_there_is_refused) {
  void* const page = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(page, MAP_FAILED);
  EXPECT_EQ(error_of(page, 4096, IBV_ACCESS_REMOTE_READ), 0);
  EXPECT_EQ(error_of(page, 4096, IBV_ACCESS_LOCAL_WRITE), EFAULT);
  ASSERT_EQ(munmap(page, 4096), 0);
  EXPECT_EQ(error_of(page, 4096, 0), EFAULT);
  EXPECT_EQ(error_of(page, 4096, IBV_ACCESS_ON_DEMAND | IBV_ACCESS_LOCAL_WRITE), 0)
      << "on demand: may come later";
}

TEST_F(Memory, rights_that_make_no_sense_are_refused) {
  EXPECT_EQ(error_of(buffer.data(), 4096, IBV_ACCESS_REMOTE_WRITE), EINVAL);
  EXPECT_EQ(error_of(buffer.data(), 4096, IBV_ACCESS_REMOTE_ATOMIC), EINVAL);
  EXPECT_EQ(error_of(buffer.data(), 4096, 1 << 19), EINVAL);
  EXPECT_EQ(error_of(buffer.data(), 0, IBV_ACCESS_LOCAL_WRITE), 0);
}

TEST_F(Memory, another_address_for_peers_counts_from_there) {
  const Mr other(ibv_reg_mr_iova(pd.get(), buffer.data(), buffer.size(),
                                 0x10000000 | (address(buffer) & 4095), kAllAccess));
  ASSERT_NE(other, nullptr);
  buffer[0] = 'i';
  EXPECT_EQ(write((0x10000000 | (address(buffer) & 4095)) + 100, other->rkey), IBV_WC_SUCCESS);
  EXPECT_EQ(buffer[100], 'i');
  errno = 0;
  EXPECT_EQ(ibv_reg_mr_iova(pd.get(), buffer.data(), buffer.size(), address(buffer) + 1, kAllAccess),
            nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(Memory, bounds_rights_and_domain_are_checked_at_the_peer) {
  std::vector<char> small(64);
  const Mr region_of_64 = region(small);
  EXPECT_EQ(write(address(small) + 56, region_of_64->rkey), IBV_WC_SUCCESS);
  EXPECT_EQ(write(address(small) + 57, region_of_64->rkey), IBV_WC_REM_ACCESS_ERR);
  reconnect();
  const Mr read_only = region(small, IBV_ACCESS_REMOTE_READ);
  EXPECT_EQ(write(address(small), read_only->rkey), IBV_WC_REM_ACCESS_ERR);
  reconnect();
  const Pd other(ibv_alloc_pd(context));
  const Mr elsewhere(ibv_reg_mr(other.get(), small.data(), small.size(), kAllAccess));
  EXPECT_EQ(write(address(small), elsewhere->rkey), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(ibv_dealloc_pd(other.get()), EBUSY);
}

TEST_F(Memory, a_deregistered_key_opens_nothing) {
  std::vector<char> bytes(64);
  Mr gone = region(bytes);
  const uint32_t rkey = gone->rkey;
  gone.reset();
  EXPECT_EQ(write(address(bytes), rkey), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(bytes[0], 0);
}

TEST_F(Memory, reregistering_changes_rights_and_place) {
  std::vector<char> first(64), second(64);
  Mr moving = region(first);
  ASSERT_EQ(
      ibv_rereg_mr(moving.get(), IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, second.data(), second.size(), 0),
      0);
  buffer[0] = 'm';
  EXPECT_EQ(write(address(second), moving->rkey), IBV_WC_SUCCESS);
  EXPECT_EQ(second[0], 'm');
  EXPECT_EQ(write(address(first), moving->rkey), IBV_WC_REM_ACCESS_ERR);
  reconnect();
  ASSERT_EQ(
      ibv_rereg_mr(moving.get(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, IBV_ACCESS_LOCAL_WRITE), 0);
  EXPECT_EQ(write(address(second), moving->rkey), IBV_WC_REM_ACCESS_ERR);
}

// A dma-buf of 64 KiB, from a graphics device that makes plain buffers (vgem does); -1: there is no such
// device.
int make_dma_buf(char*& mapped) {
  for (int i = 0; i < 8; ++i) {
    const int card = open(("/dev/dri/card" + std::to_string(i)).c_str(), O_RDWR | O_CLOEXEC);
    if (card < 0) continue;
    drm_mode_create_dumb buffer{
        .height = 64, .width = 256, .bpp = 32, .flags = 0, .handle = 0, .pitch = 0, .size = 0};
    drm_prime_handle exported{};
    if (ioctl(card, DRM_IOCTL_MODE_CREATE_DUMB, &buffer) == 0) {
      exported = {.handle = buffer.handle, .flags = DRM_CLOEXEC | DRM_RDWR, .fd = -1};
      if (ioctl(card, DRM_IOCTL_PRIME_HANDLE_TO_FD, &exported) != 0) exported.fd = -1;
    } else {
      exported.fd = -1;
    }
    close(card);
    if (exported.fd < 0) continue;
    void* const at = mmap(nullptr, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, exported.fd, 0);
    if (at != MAP_FAILED) {
      mapped = static_cast<char*>(at);
      return exported.fd;
    }
    close(exported.fd);
  }
  return -1;
}

TEST_F(Memory, a_dma_buf_is_registered_where_programs_may_map_it) {
  const auto error_of_fd = [this](int fd, uint64_t offset, size_t length, uint64_t iova, int access) {
    errno = 0;
    ibv_mr* const made = ibv_reg_dmabuf_mr(pd.get(), offset, length, iova, fd, access);
    if (made == nullptr) return errno;
    EXPECT_EQ(ibv_dereg_mr(made), 0);
    return 0;
  };
  EXPECT_EQ(error_of_fd(-1, 0, 4096, 0, kAllAccess & ~IBV_ACCESS_MW_BIND), EBADF);
  const int other = memfd_create("none", MFD_CLOEXEC);
  EXPECT_EQ(error_of_fd(other, 0, 4096, 0, IBV_ACCESS_LOCAL_WRITE), EINVAL) << "not a dma-buf";
  close(other);
  char* mapped = nullptr;
  const int fd = make_dma_buf(mapped);
  if (fd < 0)
    GTEST_SKIP() << "no /dev/dri/card* makes plain buffers here (in a virtual machine: modprobe vgem)";
  constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  EXPECT_EQ(error_of_fd(fd, 0, 65536 + 1, 0, kAccess), EINVAL) << "longer than the buffer";
  EXPECT_EQ(error_of_fd(fd, 0, 0, 0, kAccess), EINVAL) << "nothing of it";
  EXPECT_EQ(error_of_fd(fd, 100, 200, 0, kAccess), EINVAL) << "the offset in the page differs";
  EXPECT_EQ(error_of_fd(fd, 0, 4096, 0, IBV_ACCESS_ON_DEMAND), EINVAL);
  EXPECT_EQ(error_of_fd(fd, 0, 4096, 0, IBV_ACCESS_REMOTE_WRITE), EINVAL);
  {
    const Mr region(ibv_reg_dmabuf_mr(pd.get(), 5000, 9000, 0x10000 + 5000 % 4096, fd, kAccess));
    ASSERT_NE(region, nullptr);
    close(fd);  // the registration has its own hold of it
    EXPECT_EQ(region->length, 9000u);
    buffer[0] = 'd';
    const uint64_t start = 0x10000 + 5000 % 4096;
    EXPECT_EQ(write(start + 8992, region->rkey), IBV_WC_SUCCESS);
    EXPECT_EQ(mapped[5000 + 8992], 'd');
    EXPECT_EQ(write(start + 8993, region->rkey), IBV_WC_REM_ACCESS_ERR);
  }
  EXPECT_EQ(munmap(mapped, 65536), 0);
}

TEST_F(Memory, a_null_region_swallows_writes) {
  const Mr null(ibv_alloc_null_mr(pd.get()));
  ASSERT_NE(null, nullptr);
  std::memset(buffer.data(), 'n', 64);
  ibv_sge into[2] = {{0, 8, null->lkey}, sge(1000, 8)};
  ibv_recv_wr recv{};
  recv.sg_list = into;
  recv.num_sge = 2;
  ibv_recv_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_recv(right.get(), &recv, &bad), 0);
  ibv_sge from = sge(0, 16);
  ASSERT_EQ(post(left.get(), send_wr(IBV_WR_SEND, &from)), 0);
  for (const ibv_wc& wc : await(queue.get(), 2)) EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(buffer[1000], 'n');
}

class Windows : public Memory {};

TEST_F(Windows, a_window_of_type_1_opens_its_part_until_it_is_closed) {
  const Mw mw(ibv_alloc_mw(pd.get(), IBV_MW_TYPE_1));
  ASSERT_NE(mw, nullptr);
  ibv_mw_bind bind{};
  bind.send_flags = IBV_SEND_SIGNALED;
  bind.bind_info = {mr.get(), address(buffer) + 4096, 64, IBV_ACCESS_REMOTE_WRITE};
  const uint32_t before = mw->rkey;
  ASSERT_EQ(ibv_bind_mw(right.get(), mw.get(), &bind), 0);
  EXPECT_NE(mw->rkey, before);
  const ibv_wc wc = await(queue.get(), 1).front();
  EXPECT_EQ(wc.opcode, IBV_WC_BIND_MW);
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(write(address(buffer) + 4096, mw->rkey), IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_dereg_mr(mr.get()), EBUSY) << "a window is bound to it";
  const uint32_t old = mw->rkey;
  bind.bind_info.length = 0;
  ASSERT_EQ(ibv_bind_mw(right.get(), mw.get(), &bind), 0);
  EXPECT_EQ(await(queue.get(), 1).front().status, IBV_WC_SUCCESS);
  EXPECT_EQ(write(address(buffer) + 4096, old), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(Windows, a_window_of_type_2_is_bound_and_invalidated_by_requests) {
  const Mw mw(ibv_alloc_mw(pd.get(), IBV_MW_TYPE_2));
  ASSERT_NE(mw, nullptr);
  ibv_send_wr wr = send_wr(IBV_WR_BIND_MW, nullptr, 0);
  wr.bind_mw.mw = mw.get();
  wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
  wr.bind_mw.bind_info = {mr.get(), address(buffer) + 4096, 64, IBV_ACCESS_REMOTE_WRITE};
  ASSERT_EQ(post(right.get(), wr), 0);
  EXPECT_EQ(await(queue.get(), 1).front().status, IBV_WC_SUCCESS);
  EXPECT_EQ(write(address(buffer) + 4096, wr.bind_mw.rkey), IBV_WC_SUCCESS);
  EXPECT_EQ(write(address(buffer) + 4096 + 60, wr.bind_mw.rkey), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(Windows, invalidation_closes_a_window_of_type_2) {
  const Mw mw(ibv_alloc_mw(pd.get(), IBV_MW_TYPE_2));
  ibv_send_wr wr = send_wr(IBV_WR_BIND_MW, nullptr, 0);
  wr.bind_mw.mw = mw.get();
  wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
  wr.bind_mw.bind_info = {mr.get(), address(buffer) + 4096, 64, IBV_ACCESS_REMOTE_WRITE};
  ASSERT_EQ(post(right.get(), wr), 0);
  EXPECT_EQ(await(queue.get(), 1).front().status, IBV_WC_SUCCESS);
  ibv_send_wr invalidate = send_wr(IBV_WR_LOCAL_INV, nullptr, 0);
  invalidate.invalidate_rkey = wr.bind_mw.rkey;
  ASSERT_EQ(post(right.get(), invalidate), 0);
  EXPECT_EQ(await(queue.get(), 1).front().opcode, IBV_WC_LOCAL_INV);
  EXPECT_EQ(write(address(buffer) + 4096, wr.bind_mw.rkey), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(Memory, device_memory_is_reached_by_copies_and_by_its_region) {
  ibv_device_attr_ex attributes{};
  ASSERT_EQ(ibv_query_device_ex(context, nullptr, &attributes), 0);
  ASSERT_GT(attributes.max_dm_size, 4096u);
  ibv_alloc_dm_attr wanted{};
  wanted.length = attributes.max_dm_size + 4;
  errno = 0;
  EXPECT_EQ(ibv_alloc_dm(context, &wanted), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  wanted.length = 4096;
  Dm dm(ibv_alloc_dm(context, &wanted));
  ASSERT_NE(dm, nullptr);
  Mr of_dm(ibv_reg_dm_mr(pd.get(), dm.get(), 1024, 1024,
                         IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE));
  ASSERT_NE(of_dm, nullptr);
  EXPECT_EQ(ibv_free_dm(dm.get()), EBUSY);
  std::memset(buffer.data(), 'D', 8);
  EXPECT_EQ(write(16, of_dm->rkey), IBV_WC_SUCCESS);
  char seen[8] = {};
  EXPECT_EQ(ibv_memcpy_from_dm(seen, dm.get(), 1040, 8), 0);
  EXPECT_EQ(std::memcmp(seen, "DDDDDDDD", 8), 0);
  EXPECT_NE(ibv_memcpy_to_dm(dm.get(), 4092, seen, 8), 0);
  of_dm.reset();
}

}  // namespace
}  // namespace conformance
