// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroced/uverbs_command.h"

#include <algorithm>
#include <cerrno>

namespace uroce::daemon {

namespace {

template <typename T>
bool read(std::span<const std::byte>& from, T& value) {
  if (from.size() < sizeof value) return false;
  std::memcpy(&value, from.data(), sizeof value);
  from = from.subspan(sizeof value);
  return true;
}

const CommandShape* find_shape(std::span<const CommandShape> shapes, uint32_t number, bool extended) {
  const auto at = std::find_if(shapes.begin(), shapes.end(),
                               [&](const auto& s) { return s.number == number && s.extended == extended; });
  return at == shapes.end() ? nullptr : &*at;
}

int parse_legacy(const ib_uverbs_cmd_hdr& header, std::span<const std::byte> payload, Command& out) {
  if (header.in_words * 4u != payload.size() + sizeof header) return EINVAL;
  if (payload.size() < out.shape->request_bytes) return ENOSPC;
  const size_t room = header.out_words * 4u;
  if (room < out.shape->response_bytes) return ENOSPC;
  out.core_in = payload.first(out.shape->request_bytes);
  out.driver_in = payload.subspan(out.shape->request_bytes);
  out.core_out = out.shape->response_bytes;
  out.driver_out = room - out.shape->response_bytes;
  return 0;
}

int parse_extended(const ib_uverbs_cmd_hdr& header, std::span<const std::byte> payload, Command& out) {
  ib_uverbs_ex_cmd_hdr extended{};
  if (!read(payload, extended)) return EINVAL;
  if ((header.in_words + extended.provider_in_words) * 8u != payload.size()) return EINVAL;
  if (extended.cmd_hdr_reserved != 0) return EINVAL;
  const bool has_room = header.out_words != 0 || extended.provider_out_words != 0;
  if ((extended.response != 0) != has_room) return EINVAL;
  if (header.in_words * 8u < out.shape->request_bytes) return ENOSPC;
  if (header.out_words * 8u < out.shape->response_bytes) return ENOSPC;
  out.core_in = payload.first(header.in_words * 8u);
  out.driver_in = payload.subspan(header.in_words * 8u);
  out.core_out = header.out_words * 8u;
  out.driver_out = extended.provider_out_words * 8u;
  return 0;
}

}  // namespace

int parse_command(std::span<const std::byte> written, std::span<const CommandShape> shapes, Command& out) {
  out = {};
  ib_uverbs_cmd_hdr header{};
  if (!read(written, header)) return EINVAL;
  if ((header.command & ~(IB_USER_VERBS_CMD_COMMAND_MASK | IB_USER_VERBS_CMD_FLAG_EXTENDED)) != 0)
    return EINVAL;
  const bool extended = (header.command & IB_USER_VERBS_CMD_FLAG_EXTENDED) != 0;
  out.shape = find_shape(shapes, header.command & IB_USER_VERBS_CMD_COMMAND_MASK, extended);
  if (out.shape == nullptr) return EOPNOTSUPP;
  return extended ? parse_extended(header, written, out) : parse_legacy(header, written, out);
}

}  // namespace uroce::daemon
