// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/verbs/command.h"

#include <gtest/gtest.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl_cmds.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <vector>

#include "kmod-shim/uapi/uroce_abi.h"

namespace uroce::verbs {
namespace {

// Takes what would be written and answers as the other side would.
class FakePort final : public CommandPort {
 public:
  explicit FakePort(Encoding encoding) : CommandPort(-1, encoding) {}

  std::vector<std::byte> written;
  std::vector<std::byte> answer;  // core, then driver
  int error = 0;
  ssize_t shortened_by = 0;

  struct {
    uint16_t length, object_id, method_id, num_attrs;
    uint32_t driver_id;
  } header{};
  struct Attribute {
    uint16_t length, flags;
    std::vector<std::byte> bytes;
  };
  std::map<uint16_t, Attribute> attributes;

 protected:
  ssize_t write_bytes(const void* bytes, size_t count) override {
    const auto* const first = static_cast<const std::byte*>(bytes);
    written.assign(first, first + count);
    if (error != 0) {
      errno = error;
      return -1;
    }
    respond();
    return static_cast<ssize_t>(count) - shortened_by;
  }

  int invoke(void* raw) override {
    const auto& ioctl = *static_cast<ib_uverbs_ioctl_hdr*>(raw);
    header = {ioctl.length, ioctl.object_id, ioctl.method_id, ioctl.num_attrs, ioctl.driver_id};
    size_t used = 0;
    for (unsigned i = 0; i < ioctl.num_attrs; ++i) take(ioctl.attrs[i], used);
    if (error == 0) return 0;
    errno = error;
    return -1;
  }

 private:
  // Where the program wants its answer is in the bytes themselves.
  void respond() {
    if (answer.empty()) return;
    ib_uverbs_cmd_hdr legacy;
    std::memcpy(&legacy, written.data(), sizeof(legacy));
    uint64_t address = 0;
    std::memcpy(&address, written.data() + sizeof(legacy), sizeof(address));
    std::memcpy(reinterpret_cast<void*>(address), answer.data(), answer.size());
  }

  void take(const ib_uverbs_attr& from, size_t& used) {
    Attribute& to = attributes[from.attr_id];
    to.length = from.len;
    to.flags = from.flags;
    if (from.attr_id == UVERBS_ATTR_CORE_OUT || from.attr_id == UVERBS_ATTR_UHW_OUT) {
      std::memcpy(reinterpret_cast<void*>(from.data), answer.data() + used, from.len);
      used += from.len;
      return;
    }
    const auto* const source = from.len <= 8 ? reinterpret_cast<const std::byte*>(&from.data)
                                             : reinterpret_cast<const std::byte*>(from.data);
    to.bytes.assign(source, source + from.len);
  }
};

template <typename... T>
std::vector<std::byte> joined(const T&... parts) {
  std::vector<std::byte> bytes;
  const auto append = [&](const auto& part) {
    const auto* const first = reinterpret_cast<const std::byte*>(&part);
    bytes.insert(bytes.end(), first, first + sizeof(part));
  };
  (append(parts), ...);
  return bytes;
}

template <typename T>
T at(const std::vector<std::byte>& bytes, size_t offset) {
  T value{};
  EXPECT_LE(offset + sizeof(T), bytes.size());
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

// What the other side says of a new CQ.
std::vector<std::byte> cq_answer() {
  ib_uverbs_create_cq_resp core{};
  core.cq_handle = 5;
  core.cqe = 128;
  uroce_create_cq_resp ours{};
  ours.cq_id = 9;
  return joined(core, ours);
}

struct CqAnswer {
  uroce_create_cq_resp ours{};
  ib_uverbs_create_cq_resp core{};  // last: it ends with a flexible array
};

TEST(Command, legacy_write_has_header_request_and_response_address) {
  FakePort port(CommandPort::Encoding::write);
  ib_uverbs_create_cq request{};
  request.cqe = 77;
  request.comp_channel = -1;
  CqAnswer answer;
  port.answer = cq_answer();
  EXPECT_EQ(call(port, IB_USER_VERBS_CMD_CREATE_CQ, request, answer.core, answer.ours), 0);

  const auto header = at<ib_uverbs_cmd_hdr>(port.written, 0);
  EXPECT_EQ(header.command, static_cast<uint32_t>(IB_USER_VERBS_CMD_CREATE_CQ));
  EXPECT_EQ(header.in_words * 4u, port.written.size());
  EXPECT_EQ(header.out_words * 4u, sizeof(ib_uverbs_create_cq_resp) + sizeof(uroce_create_cq_resp));
  const auto sent = at<ib_uverbs_create_cq>(port.written, sizeof(header));
  EXPECT_NE(sent.response, 0u);
  EXPECT_EQ(sent.cqe, 77u);
  EXPECT_EQ(answer.core.cq_handle, 5u);
  EXPECT_EQ(answer.core.cqe, 128u);
  EXPECT_EQ(answer.ours.cq_id, 9u);
}

TEST(Command, a_request_without_response_is_written_as_it_is) {
  FakePort port(CommandPort::Encoding::write);
  EXPECT_EQ(call(port, IB_USER_VERBS_CMD_DEALLOC_PD, ib_uverbs_dealloc_pd{.pd_handle = 3}), 0);
  EXPECT_EQ(at<uint32_t>(port.written, sizeof(ib_uverbs_cmd_hdr)), 3u);
  EXPECT_EQ(at<ib_uverbs_cmd_hdr>(port.written, 0).out_words, 0);
}

TEST(Command, the_kick_is_a_command_of_its_own) {
  FakePort port(CommandPort::Encoding::write);
  const uroce_kick kick{
      .kind = UROCE_KICK_COMPLETION, .id = 4, .event_type = 0, .reserved = 0, .user_handle = 8};
  EXPECT_EQ(call(port, IB_USER_VERBS_CMD_PEEK_CQ, kick), 0);
  EXPECT_EQ(port.written.size(), sizeof(ib_uverbs_cmd_hdr) + sizeof(kick));
  EXPECT_EQ(at<uroce_kick>(port.written, sizeof(ib_uverbs_cmd_hdr)).id, 4u);
}

TEST(Command, extended_write_counts_core_and_driver_in_units_of_eight) {
  FakePort port(CommandPort::Encoding::write);
  ib_uverbs_ex_query_device request{};
  ib_uverbs_ex_query_device_resp response{};
  EXPECT_EQ(call_extended(port, IB_USER_VERBS_EX_CMD_QUERY_DEVICE, request, response), 0);
  const auto header = at<ib_uverbs_cmd_hdr>(port.written, 0);
  const auto extended = at<ib_uverbs_ex_cmd_hdr>(port.written, sizeof(header));
  EXPECT_EQ(header.command, IB_USER_VERBS_EX_CMD_QUERY_DEVICE | IB_USER_VERBS_CMD_FLAG_EXTENDED);
  EXPECT_EQ(header.in_words * 8u, sizeof(request));
  EXPECT_EQ(header.out_words * 8u, sizeof(response));
  EXPECT_EQ(extended.provider_in_words, 0);
  EXPECT_NE(extended.response, 0u);
}

TEST(Command, errors_are_positive_and_errno_is_kept) {
  for (const auto encoding : {CommandPort::Encoding::write, CommandPort::Encoding::ioctl}) {
    FakePort port(encoding);
    port.error = EBUSY;
    errno = ENOTDIR;
    EXPECT_EQ(call(port, IB_USER_VERBS_CMD_DEALLOC_PD, ib_uverbs_dealloc_pd{.pd_handle = 3}), EBUSY);
    EXPECT_EQ(errno, ENOTDIR);
  }
}

TEST(Command, outputs_are_untouched_after_an_error) {
  FakePort port(CommandPort::Encoding::write);
  port.error = ENOMEM;
  ib_uverbs_alloc_pd_resp response{.pd_handle = 42};
  EXPECT_EQ(call(port, IB_USER_VERBS_CMD_ALLOC_PD, ib_uverbs_alloc_pd{}, response), ENOMEM);
  EXPECT_EQ(response.pd_handle, 42u);
}

TEST(Command, a_write_that_takes_less_than_all_is_an_error) {
  FakePort port(CommandPort::Encoding::write);
  port.shortened_by = 4;
  EXPECT_EQ(call(port, IB_USER_VERBS_CMD_DEALLOC_PD, ib_uverbs_dealloc_pd{.pd_handle = 3}), EIO);
}

TEST(Command, odd_and_oversized_ones_are_not_sent) {
  FakePort port(CommandPort::Encoding::write);
  std::array<std::byte, 2048> bytes{};
  Command command;
  command.core_in = std::span(bytes).first(6);
  EXPECT_EQ(port.execute(command), EINVAL);
  command.core_in = std::span(bytes);
  EXPECT_EQ(port.execute(command), EINVAL);
  EXPECT_TRUE(port.written.empty());
}

TEST(Command, ioctl_carries_the_same_parts_as_attributes) {
  FakePort port(CommandPort::Encoding::ioctl);
  ib_uverbs_create_cq request{};
  request.cqe = 77;
  CqAnswer answer;
  port.answer = cq_answer();
  EXPECT_EQ(call(port, IB_USER_VERBS_CMD_CREATE_CQ, request, answer.core, answer.ours), 0);

  EXPECT_EQ(port.header.object_id, UVERBS_OBJECT_DEVICE);
  EXPECT_EQ(port.header.method_id, UVERBS_METHOD_INVOKE_WRITE);
  EXPECT_EQ(port.header.driver_id, UROCE_DRIVER_ID);
  EXPECT_EQ(port.header.length, sizeof(ib_uverbs_ioctl_hdr) + port.header.num_attrs * sizeof(ib_uverbs_attr));
  EXPECT_EQ(at<uint64_t>(port.attributes[UVERBS_ATTR_WRITE_CMD].bytes, 0),
            static_cast<uint64_t>(IB_USER_VERBS_CMD_CREATE_CQ));
  EXPECT_EQ(at<ib_uverbs_create_cq>(port.attributes[UVERBS_ATTR_CORE_IN].bytes, 0).cqe, 77u);
  EXPECT_EQ(port.attributes[UVERBS_ATTR_CORE_OUT].length, sizeof(ib_uverbs_create_cq_resp));
  EXPECT_EQ(port.attributes[UVERBS_ATTR_UHW_OUT].length, sizeof(uroce_create_cq_resp));
  EXPECT_EQ(answer.core.cq_handle, 5u);
  EXPECT_EQ(answer.ours.cq_id, 9u);
}

TEST(Command, ioctl_puts_short_inputs_into_the_attribute) {
  FakePort port(CommandPort::Encoding::ioctl);
  EXPECT_EQ(call(port, IB_USER_VERBS_CMD_DEALLOC_PD, ib_uverbs_dealloc_pd{.pd_handle = 3}), 0);
  EXPECT_EQ(port.attributes[UVERBS_ATTR_CORE_IN].length, sizeof(ib_uverbs_dealloc_pd));
  EXPECT_EQ(at<uint32_t>(port.attributes[UVERBS_ATTR_CORE_IN].bytes, 0), 3u);
  EXPECT_EQ(port.attributes.count(UVERBS_ATTR_CORE_OUT), 0u);
}

}  // namespace
}  // namespace uroce::verbs
