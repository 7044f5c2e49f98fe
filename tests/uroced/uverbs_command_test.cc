// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroced/uverbs_command.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "tools/uroced/uverbs_call.h"

namespace uroce::daemon {
namespace {

std::vector<std::byte> bytes(std::initializer_list<std::span<const std::byte>> parts) {
  std::vector<std::byte> all;
  for (const auto part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}
template <typename T>
std::span<const std::byte> raw(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

int parse(std::span<const std::byte> written, Command& out) {
  return parse_command(written, uverbs_shapes(), out);
}

ib_uverbs_cmd_hdr header(uint32_t command, size_t in_bytes, size_t out_bytes) {
  return {command, static_cast<uint16_t>(in_bytes / 4), static_cast<uint16_t>(out_bytes / 4)};
}

TEST(UverbsCommand, legacy_splits_core_and_driver) {
  const ib_uverbs_alloc_pd request{};
  const uint64_t driver = 5;
  const size_t in = sizeof(ib_uverbs_cmd_hdr) + sizeof request + sizeof driver;
  const auto written = bytes({raw(header(IB_USER_VERBS_CMD_ALLOC_PD, in, 12)), raw(request), raw(driver)});
  Command command;
  ASSERT_EQ(parse(written, command), 0);
  EXPECT_EQ(command.core_in.size(), sizeof request);
  EXPECT_EQ(command.driver_in.size(), sizeof driver);
  EXPECT_EQ(command.core_out, 4u);
  EXPECT_EQ(command.driver_out, 8u);
}

TEST(UverbsCommand, legacy_length_must_agree_with_the_header) {
  const ib_uverbs_dealloc_pd request{};
  const size_t right = sizeof(ib_uverbs_cmd_hdr) + sizeof request;
  Command command;
  EXPECT_EQ(parse(bytes({raw(header(IB_USER_VERBS_CMD_DEALLOC_PD, right, 0)), raw(request)}), command), 0);
  EXPECT_EQ(parse(bytes({raw(header(IB_USER_VERBS_CMD_DEALLOC_PD, right + 4, 0)), raw(request)}), command),
            EINVAL);
  EXPECT_EQ(parse(bytes({raw(header(IB_USER_VERBS_CMD_DEALLOC_PD, right - 4, 0)), raw(request)}), command),
            EINVAL);
  EXPECT_EQ(parse(bytes({raw(header(IB_USER_VERBS_CMD_DEALLOC_PD, 8, 0))}), command), ENOSPC);
}

TEST(UverbsCommand, no_room_for_the_response) {
  const ib_uverbs_query_port request{};
  const size_t in = sizeof(ib_uverbs_cmd_hdr) + sizeof request;
  Command command;
  EXPECT_EQ(parse(bytes({raw(header(IB_USER_VERBS_CMD_QUERY_PORT, in, 36)), raw(request)}), command), ENOSPC);
}

TEST(UverbsCommand, extended_counts_in_eight_bytes) {
  ib_uverbs_cmd_hdr hdr{IB_USER_VERBS_EX_CMD_QUERY_DEVICE | IB_USER_VERBS_CMD_FLAG_EXTENDED, 1, 38};
  ib_uverbs_ex_cmd_hdr ex{0x1000, 1, 2, 0};
  const ib_uverbs_ex_query_device request{};
  const uint64_t driver = 0;
  Command command;
  ASSERT_EQ(parse(bytes({raw(hdr), raw(ex), raw(request), raw(driver)}), command), 0);
  EXPECT_EQ(command.core_in.size(), 8u);
  EXPECT_EQ(command.driver_in.size(), 8u);
  EXPECT_EQ(command.core_out, 304u);
  EXPECT_EQ(command.driver_out, 16u);

  ex.response = 0;  // room without an address
  EXPECT_EQ(parse(bytes({raw(hdr), raw(ex), raw(request), raw(driver)}), command), EINVAL);
  ex.response = 0x1000;
  ex.cmd_hdr_reserved = 1;
  EXPECT_EQ(parse(bytes({raw(hdr), raw(ex), raw(request), raw(driver)}), command), EINVAL);
  ex.cmd_hdr_reserved = 0;
  hdr.in_words = 2;
  EXPECT_EQ(parse(bytes({raw(hdr), raw(ex), raw(request), raw(driver)}), command), EINVAL);
  hdr.in_words = 0;
  ex.provider_in_words = 2;
  EXPECT_EQ(parse(bytes({raw(hdr), raw(ex), raw(request), raw(driver)}), command), ENOSPC);
}

TEST(UverbsCommand, unknown_ones) {
  Command command;
  for (const uint32_t number :
       {IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL, IB_USER_VERBS_CMD_POLL_CQ, IB_USER_VERBS_CMD_PEEK_CQ,
        IB_USER_VERBS_CMD_POST_SEND, IB_USER_VERBS_CMD_CREATE_AH}) {
    EXPECT_EQ(parse(bytes({raw(header(number, 8, 0))}), command), EOPNOTSUPP) << number;
  }
  EXPECT_EQ(parse(bytes({raw(header(255, 8, 0))}), command), EOPNOTSUPP);
  EXPECT_EQ(parse(bytes({raw(header(0x100, 8, 0))}), command), EINVAL) << "bits that mean nothing";
  EXPECT_EQ(parse(bytes({raw(header(IB_USER_VERBS_CMD_ALLOC_PD | IB_USER_VERBS_CMD_FLAG_EXTENDED, 8, 0))}),
                  command),
            EOPNOTSUPP);
}

TEST(UverbsCommand, truncated_anywhere_is_an_error) {
  const ib_uverbs_create_qp request{};
  const size_t in = sizeof(ib_uverbs_cmd_hdr) + sizeof request;
  const auto whole = bytes({raw(header(IB_USER_VERBS_CMD_CREATE_QP, in, 32)), raw(request)});
  Command command;
  ASSERT_EQ(parse(whole, command), 0);
  for (size_t n = 0; n < whole.size(); ++n) {
    const std::vector<std::byte> cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(n));
    EXPECT_NE(parse(cut, command), 0) << n;
  }
}

TEST(UverbsCommand, reply_puts_the_driver_part_behind_the_core_part) {
  Command command;
  command.core_out = 8;
  command.driver_out = 4;
  CommandReply reply(command);
  reply.core(uint32_t{1});
  reply.driver(uint64_t{0x0202020202020202});  // cut to what there is room for
  ASSERT_EQ(reply.bytes().size(), 12u);
  EXPECT_EQ(reply.bytes()[0], std::byte{1});
  EXPECT_EQ(reply.bytes()[4], std::byte{0});
  EXPECT_EQ(reply.bytes()[8], std::byte{2});
}

}  // namespace
}  // namespace uroce::daemon
