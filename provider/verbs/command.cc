// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/verbs/command.h"

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <new>

#include "kmod-shim/uapi/uroce_abi.h"

namespace uroce::verbs {

namespace {

// Larger than any command or response in use.
constexpr size_t kMaxBytes = 1024;

struct Message {
  alignas(8) std::array<std::byte, kMaxBytes> bytes;
  size_t used = 0;
  void append(const void* source, size_t count) {
    std::memcpy(bytes.data() + used, source, count);
    used += count;
  }
  void append(std::span<const std::byte> part) {
    if (!part.empty()) append(part.data(), part.size());
  }
};

uint64_t address(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer);
}

bool fits(const Command& command) {
  const size_t unit = command.extended ? 8 : 4;
  const size_t headers = sizeof(ib_uverbs_cmd_hdr) + sizeof(ib_uverbs_ex_cmd_hdr);
  return (command.core_in.size() | command.driver_in.size() | command.core_out.size() |
          command.driver_out.size()) %
                 unit ==
             0 &&
         headers + command.core_in.size() + command.driver_in.size() <= kMaxBytes &&
         command.core_out.size() + command.driver_out.size() <= kMaxBytes;
}

uint32_t wire_number(const Command& command) {
  return command.extended ? command.number | IB_USER_VERBS_CMD_FLAG_EXTENDED : command.number;
}

class ErrnoKeeper {
 public:
  ErrnoKeeper() : saved_(errno) {}
  ~ErrnoKeeper() { errno = saved_; }

 private:
  int saved_;
};

}  // namespace

int CommandPort::execute(const Command& command) {
  if (!fits(command)) return EINVAL;
  const ErrnoKeeper keep;
  return encoding_ == Encoding::write ? execute_write(command) : execute_ioctl(command);
}

int CommandPort::execute_write(const Command& command) {
  Message message;
  alignas(8) std::array<std::byte, kMaxBytes> response{};
  const uint64_t response_address = address(response.data());
  const size_t out_bytes = command.core_out.size() + command.driver_out.size();

  ib_uverbs_cmd_hdr header{};
  header.command = wire_number(command);
  if (command.extended) {
    // In units of 8 bytes, the core's and the driver's parts counted apart.
    header.in_words = static_cast<uint16_t>(command.core_in.size() / 8);
    header.out_words = static_cast<uint16_t>(command.core_out.size() / 8);
    ib_uverbs_ex_cmd_hdr extended{};
    extended.response = out_bytes != 0 ? response_address : 0;
    extended.provider_in_words = static_cast<uint16_t>(command.driver_in.size() / 8);
    extended.provider_out_words = static_cast<uint16_t>(command.driver_out.size() / 8);
    message.append(&header, sizeof(header));
    message.append(&extended, sizeof(extended));
    message.append(command.core_in);
  } else {
    header.in_words =
        static_cast<uint16_t>((sizeof(header) + command.core_in.size() + command.driver_in.size()) / 4);
    header.out_words = static_cast<uint16_t>(out_bytes / 4);
    message.append(&header, sizeof(header));
    message.append(command.core_in);
    if (command.has_response_pointer) {
      std::memcpy(message.bytes.data() + sizeof(header), &response_address, sizeof(response_address));
    }
  }
  message.append(command.driver_in);

  const ssize_t written = write_bytes(message.bytes.data(), message.used);
  if (written < 0) return errno != 0 ? errno : EIO;
  if (static_cast<size_t>(written) != message.used) return EIO;
  if (!command.core_out.empty())
    std::memcpy(command.core_out.data(), response.data(), command.core_out.size());
  if (!command.driver_out.empty()) {
    std::memcpy(command.driver_out.data(), response.data() + command.core_out.size(),
                command.driver_out.size());
  }
  return 0;
}

namespace {

// The header, with the attributes in the place of its flexible array.
constexpr size_t kMaxAttributes = 5;
struct InvokeWrite {
  alignas(ib_uverbs_ioctl_hdr)
      std::array<std::byte, sizeof(ib_uverbs_ioctl_hdr) + kMaxAttributes * sizeof(ib_uverbs_attr)> bytes{};
  ib_uverbs_ioctl_hdr& header = *new (bytes.data()) ib_uverbs_ioctl_hdr{};

  ib_uverbs_attr& next() { return header.attrs[header.num_attrs++]; }
};

// Inputs of at most 8 bytes travel in the attribute itself.
void add_input(InvokeWrite& invoke, uint16_t id, uint16_t flags, std::span<const std::byte> bytes) {
  ib_uverbs_attr& attribute = invoke.next();
  attribute.attr_id = id;
  attribute.len = static_cast<uint16_t>(bytes.size());
  attribute.flags = flags;
  if (bytes.size() <= sizeof(attribute.data)) {
    std::memcpy(&attribute.data, bytes.data(), bytes.size());
  } else {
    attribute.data = address(bytes.data());
  }
}

void add_output(InvokeWrite& invoke, uint16_t id, uint16_t flags, std::span<std::byte> bytes) {
  ib_uverbs_attr& attribute = invoke.next();
  attribute.attr_id = id;
  attribute.len = static_cast<uint16_t>(bytes.size());
  attribute.flags = flags;
  attribute.data = address(bytes.data());
}

}  // namespace

int CommandPort::execute_ioctl(const Command& command) {
  alignas(8) std::array<std::byte, kMaxBytes> core{}, driver{};
  InvokeWrite invoke;
  invoke.header.object_id = UVERBS_OBJECT_DEVICE;
  invoke.header.method_id = UVERBS_METHOD_INVOKE_WRITE;
  invoke.header.driver_id = UROCE_DRIVER_ID;

  const uint64_t number = wire_number(command);
  constexpr uint16_t mandatory = UVERBS_ATTR_F_MANDATORY;
  add_input(invoke, UVERBS_ATTR_WRITE_CMD, mandatory, bytes_of(number));
  if (!command.core_in.empty()) add_input(invoke, UVERBS_ATTR_CORE_IN, mandatory, command.core_in);
  if (!command.driver_in.empty()) add_input(invoke, UVERBS_ATTR_UHW_IN, mandatory, command.driver_in);
  const std::span<std::byte> core_out(core.data(), command.core_out.size());
  const std::span<std::byte> driver_out(driver.data(), command.driver_out.size());
  if (!core_out.empty()) add_output(invoke, UVERBS_ATTR_CORE_OUT, mandatory, core_out);
  if (!driver_out.empty()) add_output(invoke, UVERBS_ATTR_UHW_OUT, mandatory, driver_out);
  invoke.header.length =
      static_cast<uint16_t>(sizeof(ib_uverbs_ioctl_hdr) + invoke.header.num_attrs * sizeof(ib_uverbs_attr));

  if (this->invoke(&invoke.header) < 0) return errno != 0 ? errno : EIO;
  if (!core_out.empty()) std::memcpy(command.core_out.data(), core.data(), core_out.size());
  if (!driver_out.empty()) std::memcpy(command.driver_out.data(), driver.data(), driver_out.size());
  return 0;
}

// Through the ordinary symbols: the stand-in interposes them.
ssize_t CommandPort::write_bytes(const void* bytes, size_t count) {
  return ::write(fd_, bytes, count);
}
int CommandPort::invoke(void* ioctl_header) {
  return ::ioctl(fd_, RDMA_VERBS_IOCTL, ioctl_header);
}

}  // namespace uroce::verbs
