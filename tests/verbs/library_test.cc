// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/verbs/library.h"

#include <gtest/gtest.h>

#include <cstring>

namespace uroce::verbs {
namespace {

// A library of any layout, with everything in its place or one thing moved.
struct Fake {
  uint32_t context_offset = 0;
  uint32_t op_count = 0;
  uint32_t poll_cq_index = 0;
  const abi::Layout* layout = nullptr;
  uint32_t comp_mask_offset = 0;
};
Fake g_fake;

void fake_set_ops(abi::verbs_context* context, const void* table) {
  auto* const bytes = reinterpret_cast<char*>(context);
  const auto* const ops = static_cast<void* const*>(table);
  char* priv = nullptr;
  std::memcpy(&priv, bytes + g_fake.context_offset - abi::kPrivBeforeContext, sizeof(priv));
  std::memcpy(priv + abi::kPrivOps, ops, g_fake.op_count * sizeof(void*));
  const auto store = [&](size_t slot, uint32_t index) {
    std::memcpy(bytes + g_fake.context_offset + offsetof(ibv_context, ops) + slot, &ops[index],
                sizeof(void*));
  };
  const abi::Layout& layout = *g_fake.layout;
  store(offsetof(ibv_context_ops, alloc_mw), layout.index_of(abi::Op::alloc_mw));
  store(offsetof(ibv_context_ops, bind_mw), layout.index_of(abi::Op::bind_mw));
  store(offsetof(ibv_context_ops, dealloc_mw), layout.index_of(abi::Op::dealloc_mw));
  store(offsetof(ibv_context_ops, poll_cq), g_fake.poll_cq_index);
  store(offsetof(ibv_context_ops, post_recv), layout.index_of(abi::Op::post_recv));
  store(offsetof(ibv_context_ops, post_send), layout.index_of(abi::Op::post_send));
  store(offsetof(ibv_context_ops, post_srq_recv), layout.index_of(abi::Op::post_srq_recv));
  store(offsetof(ibv_context_ops, req_notify_cq), layout.index_of(abi::Op::req_notify_cq));
}

ibv_qp_ex* fake_qp_to_qp_ex(ibv_qp* qp) {
  uint32_t mask = 0;
  std::memcpy(&mask, reinterpret_cast<char*>(qp) + g_fake.comp_mask_offset, sizeof(mask));
  return (mask & abi::kQpMaskEx) != 0 ? reinterpret_cast<ibv_qp_ex*>(qp) : nullptr;
}

Fake fake_of(const abi::Layout& layout) {
  return {layout.context_offset, layout.op_count, layout.index_of(abi::Op::poll_cq), &layout, 360};
}

std::optional<Library> probe(const Fake& fake, uint32_t pabi, std::string& why) {
  g_fake = fake;
  return probe_layout({fake_set_ops, fake_qp_to_qp_ex, pabi}, why);
}

TEST(Library, every_known_layout_is_recognised) {
  for (const abi::Layout& layout : abi::kLayouts) {
    std::string why;
    const auto found = probe(fake_of(layout), layout.pabi_max, why);
    ASSERT_TRUE(found) << why;
    EXPECT_EQ(found->layout, &layout);
    EXPECT_EQ(found->qp_comp_mask_offset, 360u);
  }
}

TEST(Library, the_mask_of_an_extended_queue_pair_is_found_at_each_known_offset) {
  for (uint32_t offset : abi::kQpCompMaskOffsets) {
    Fake fake = fake_of(abi::kLayouts[2]);
    fake.comp_mask_offset = offset;
    std::string why;
    const auto found = probe(fake, 34, why);
    ASSERT_TRUE(found) << why;
    EXPECT_EQ(found->qp_comp_mask_offset, offset);
  }
}

TEST(Library, another_number_of_operations_is_refused) {
  Fake fake = fake_of(abi::kLayouts[2]);
  fake.op_count = 77;
  std::string why;
  EXPECT_FALSE(probe(fake, 34, why));
  EXPECT_NE(why.find("77 operations"), std::string::npos) << why;
  EXPECT_NE(why.find("supported"), std::string::npos) << why;
}

TEST(Library, an_abi_number_that_does_not_go_with_the_layout_is_refused) {
  std::string why;
  EXPECT_FALSE(probe(fake_of(abi::kLayouts[2]), 64, why));
  EXPECT_FALSE(probe(fake_of(abi::kLayouts[5]), 34, why));
}

TEST(Library, operations_in_another_order_are_refused) {
  Fake fake = fake_of(abi::kLayouts[2]);
  ++fake.poll_cq_index;
  std::string why;
  EXPECT_FALSE(probe(fake, 34, why));
}

TEST(Library, a_moved_context_is_refused) {
  Fake fake = fake_of(abi::kLayouts[2]);
  fake.context_offset += 16;
  std::string why;
  EXPECT_FALSE(probe(fake, 34, why));
}

TEST(Library, an_unknown_mask_offset_is_refused) {
  Fake fake = fake_of(abi::kLayouts[2]);
  fake.comp_mask_offset = 368;
  std::string why;
  EXPECT_FALSE(probe(fake, 34, why));
  EXPECT_NE(why.find("mask"), std::string::npos) << why;
}

TEST(Library, the_installed_one_is_understood) {
  std::string why;
  const auto found = find_library(why);
  ASSERT_TRUE(found) << why;
  EXPECT_NE(found->register_driver, nullptr);
  EXPECT_NE(found->set_ops, nullptr);
  EXPECT_NE(found->uninit_context, nullptr);
  EXPECT_NE(found->init_and_alloc_context, nullptr);
  // What its own inline functions say of the header that was compiled in.
  alignas(16) unsigned char area[abi::kQpAreaBytes] = {};
  std::memcpy(area + found->qp_comp_mask_offset, &abi::kQpMaskEx, sizeof(abi::kQpMaskEx));
  EXPECT_NE(ibv_qp_to_qp_ex(reinterpret_cast<ibv_qp*>(area)), nullptr);
}

}  // namespace
}  // namespace uroce::verbs
