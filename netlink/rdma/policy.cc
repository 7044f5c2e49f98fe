// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "netlink/rdma/policy.h"

#include <fmt/format.h>
#include <libmnl/libmnl.h>
#include <net/if.h>

#include <cstring>
#include <initializer_list>

namespace uroce::netlink {

namespace {

enum class Form : uint8_t { any, u8, u32, u64, text, table };

struct Rule {
  Form form = Form::any;
  uint16_t longest = 0;  // text, without its NUL
};

constexpr uint16_t kLongestDeviceName = 63;
constexpr uint16_t kLongestChardevType = 31;

// Attributes that the kernel headers of an older Debian 12 do not name yet; the numbers are ABI.
constexpr auto kPrivilegedQkeyMode =
    static_cast<rdma_nldev_attr>(96);                              // RDMA_NLDEV_SYS_ATTR_PRIVILEGED_QKEY_MODE
constexpr auto kDriverDetails = static_cast<rdma_nldev_attr>(97);  // RDMA_NLDEV_ATTR_DRIVER_DETAILS

// Only what a request may carry; the rest occurs in answers alone.
constexpr auto kRules = [] {
  std::array<Rule, kAttributeNumbers> rules{};
  for (const int type :
       {RDMA_NLDEV_ATTR_DEV_INDEX, RDMA_NLDEV_ATTR_PORT_INDEX, RDMA_NLDEV_ATTR_RES_LQPN,
        RDMA_NLDEV_ATTR_RES_RQPN, RDMA_NLDEV_ATTR_RES_PID, RDMA_NLDEV_ATTR_RES_PDN, RDMA_NLDEV_ATTR_RES_CQN,
        RDMA_NLDEV_ATTR_RES_MRN, RDMA_NLDEV_ATTR_RES_CM_IDN, RDMA_NLDEV_ATTR_RES_CTXN,
        RDMA_NLDEV_ATTR_RES_SRQN, RDMA_NLDEV_NET_NS_FD, RDMA_NLDEV_ATTR_STAT_MODE, RDMA_NLDEV_ATTR_STAT_RES,
        RDMA_NLDEV_ATTR_STAT_AUTO_MODE_MASK, RDMA_NLDEV_ATTR_STAT_COUNTER_ID}) {
    rules[static_cast<size_t>(type)] = {Form::u32, 0};
  }
  for (const int type :
       std::initializer_list<int>{RDMA_NLDEV_SYS_ATTR_NETNS_MODE, RDMA_NLDEV_ATTR_DEV_DIM,
                                  RDMA_NLDEV_ATTR_RES_TYPE, kPrivilegedQkeyMode, kDriverDetails}) {
    rules[static_cast<size_t>(type)] = {Form::u8, 0};
  }
  rules[RDMA_NLDEV_ATTR_DEV_NAME] = {Form::text, kLongestDeviceName};
  rules[RDMA_NLDEV_ATTR_LINK_TYPE] = {Form::text, IFNAMSIZ - 1};
  rules[RDMA_NLDEV_ATTR_NDEV_NAME] = {Form::text, IFNAMSIZ - 1};
  rules[RDMA_NLDEV_ATTR_CHARDEV_TYPE] = {Form::text, kLongestChardevType};
  rules[RDMA_NLDEV_ATTR_STAT_HWCOUNTERS] = {Form::table, 0};
  return rules;
}();

std::string fault_of(const nlattr& attribute, const Rule& rule) {
  const size_t bytes = mnl_attr_get_payload_len(&attribute);
  const auto wrong_size = [&](size_t wanted) {
    return bytes >= wanted ? std::string()
                           : fmt::format("attribute {} has {} bytes instead of {}",
                                         mnl_attr_get_type(&attribute), bytes, wanted);
  };
  switch (rule.form) {
    case Form::any:
    case Form::table: return {};
    case Form::u8: return wrong_size(sizeof(uint8_t));
    case Form::u32: return wrong_size(sizeof(uint32_t));
    case Form::u64: return wrong_size(sizeof(uint64_t));
    case Form::text: break;
  }
  const auto* text = static_cast<const char*>(mnl_attr_get_payload(&attribute));
  const size_t length = strnlen(text, bytes);
  if (length == bytes)
    return fmt::format("the text of attribute {} has no end", mnl_attr_get_type(&attribute));
  if (length > rule.longest) {
    return fmt::format("'{}' is too long: at most {} characters are possible", text, rule.longest);
  }
  return {};
}

}  // namespace

struct AttributeParser {
  static bool parse(const nlmsghdr& message, Attributes& out, AttributeFault& fault) {
    const auto* at = static_cast<const nlattr*>(mnl_nlmsg_get_payload(&message));
    const auto* end = static_cast<const char*>(mnl_nlmsg_get_payload_tail(&message));
    while (mnl_attr_ok(at, static_cast<int>(end - reinterpret_cast<const char*>(at)))) {
      const uint16_t type = mnl_attr_get_type(at);
      if (type < out.found_.size()) {
        fault.text = fault_of(*at, kRules[type]);
        if (!fault.text.empty()) {
          fault.offset = static_cast<uint32_t>(reinterpret_cast<const char*>(at) -
                                               reinterpret_cast<const char*>(&message));
          return false;
        }
        out.found_[type] = at;
      }
      at = mnl_attr_next(at);
    }
    return true;
  }
};

std::optional<uint8_t> Attributes::u8(rdma_nldev_attr type) const {
  return has(type) ? std::optional(mnl_attr_get_u8(found_[type])) : std::nullopt;
}

std::optional<uint32_t> Attributes::u32(rdma_nldev_attr type) const {
  return has(type) ? std::optional(mnl_attr_get_u32(found_[type])) : std::nullopt;
}

std::optional<std::string> Attributes::text(rdma_nldev_attr type) const {
  return has(type) ? std::optional<std::string>(mnl_attr_get_str(found_[type])) : std::nullopt;
}

bool Attributes::has_entries(rdma_nldev_attr type) const {
  return has(type) && mnl_attr_get_payload_len(found_[type]) >= sizeof(nlattr);
}

bool parse_attributes(const nlmsghdr& message, Attributes& out, AttributeFault& fault) {
  return AttributeParser::parse(message, out, fault);
}

}  // namespace uroce::netlink
