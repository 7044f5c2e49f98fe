// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The device under test and owners of verbs objects. Only what libibverbs offers to any program is used:
// these cases know nothing of what is behind it.
#pragma once

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

namespace conformance {

template <auto destroy>
struct Destroy {
  template <typename T>
  void operator()(T* object) const {
    EXPECT_EQ(destroy(object), 0);
  }
};
using Pd = std::unique_ptr<ibv_pd, Destroy<ibv_dealloc_pd>>;
using Mr = std::unique_ptr<ibv_mr, Destroy<ibv_dereg_mr>>;
using Mw = std::unique_ptr<ibv_mw, Destroy<ibv_dealloc_mw>>;
using Cq = std::unique_ptr<ibv_cq, Destroy<ibv_destroy_cq>>;
using Qp = std::unique_ptr<ibv_qp, Destroy<ibv_destroy_qp>>;
using Srq = std::unique_ptr<ibv_srq, Destroy<ibv_destroy_srq>>;
using Ah = std::unique_ptr<ibv_ah, Destroy<ibv_destroy_ah>>;
using Dm = std::unique_ptr<ibv_dm, Destroy<ibv_free_dm>>;
using Xrcd = std::unique_ptr<ibv_xrcd, Destroy<ibv_close_xrcd>>;
using Channel = std::unique_ptr<ibv_comp_channel, Destroy<ibv_destroy_comp_channel>>;

constexpr int kAllAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                           IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND;

// The first device, opened, with a domain and the first GID that is not zero and not link-local.
class Device : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  Cq cq(int entries = 64) { return Cq(ibv_create_cq(context, entries, nullptr, nullptr, 0)); }
  Mr region(std::vector<char>& bytes, int access = kAllAccess) {
    return Mr(ibv_reg_mr(pd.get(), bytes.data(), bytes.size(), access));
  }
  ibv_qp_init_attr init_attributes(ibv_qp_type type, ibv_cq* queue) const;
  Qp qp(ibv_qp_type type, ibv_cq* queue) {
    ibv_qp_init_attr init = init_attributes(type, queue);
    return Qp(ibv_create_qp(pd.get(), &init));
  }

  ibv_context* context = nullptr;
  ibv_device_attr limits{};
  Pd pd;
  ibv_gid gid{};
  uint8_t gid_index = 0;
};

// Polls until `count` completions came; fails after a long time without any.
std::vector<ibv_wc> await(ibv_cq* cq, int count);

}  // namespace conformance
