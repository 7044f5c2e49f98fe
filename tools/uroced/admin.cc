// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroced/admin.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <fstream>
#include <optional>

#include "tools/uroced/log.h"
#include "tools/uroced/process_scan.h"

namespace uroce::daemon {

using nlohmann::json;

namespace {

constexpr int kWantedReceiveBuffer = 4 << 20;
constexpr std::string_view kTransports[] = {"auto", "udp", "xdp", "local"};
constexpr std::string_view kKinds[kObjectKinds] = {"free", "pd",  "mr",   "mw",   "cq",
                                                   "qp",   "srq", "xrcd", "mcast"};

json failure(const std::string& text) {
  return {{"ok", false}, {"error", text}};
}

json failure(int error, const std::string& text) {
  return {{"ok", false}, {"error", text.empty() ? std::strerror(error) : text}, {"errno", error}};
}

std::string text_member(const json& request, const char* name) {
  const auto at = request.find(name);
  return at != request.end() && at->is_string() ? at->get<std::string>() : "";
}

// As people write it: 10.0.0.1, fe80::1.
std::string address_text(const uint8_t (&gid)[16]) {
  char text[INET6_ADDRSTRLEN] = {};
  wire::Gid address;
  std::memcpy(address.raw.data(), gid, sizeof gid);
  if (address.is_ipv4()) {
    inet_ntop(AF_INET, gid + 12, text, sizeof text);
  } else {
    inet_ntop(AF_INET6, gid, text, sizeof text);
  }
  return text;
}

uint64_t number_in(const char* path) {
  std::ifstream file(path);
  uint64_t value = 0;
  file >> value;
  return value;
}

// Names of programs and devices may hold any bytes.
std::string dump(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

// Part of a list that starts where the request says and ends where the message has no room.
class Page {
 public:
  Page(const json& request, const char* member) : member_(member) {
    const auto at = request.find(member);
    if (at != request.end() && at->is_number_unsigned()) first_ = at->get<uint64_t>();
  }
  bool wants(uint32_t number) const { return number >= first_ && !next_; }
  void add(uint32_t number, json entry) {
    bytes_ += dump(entry).size();
    if (bytes_ > kRoom && !entries_.empty()) {
      next_ = number;
    } else {
      entries_.push_back(std::move(entry));
    }
  }
  const json& entries() const { return entries_; }
  void tell_next(json& answer) const {
    if (next_) answer[member_] = *next_;
  }

 private:
  static constexpr size_t kRoom = 24 * 1024;

  const char* member_;
  uint64_t first_ = 0;
  std::optional<uint32_t> next_;
  size_t bytes_ = 0;
  json entries_ = json::array();
};

json newest_that_fit(const std::vector<std::string>& lines) {
  constexpr size_t kRoom = 48 * 1024;  // escapes may need a little more
  size_t first = lines.size();
  for (size_t bytes = 0; first > 0 && (bytes += lines[first - 1].size() + 4) <= kRoom;) first--;
  return std::vector<std::string>(lines.begin() + static_cast<std::ptrdiff_t>(first), lines.end());
}

}  // namespace

std::string Admin::answer(std::string_view text, uint32_t pid) {
  const std::string told = dump(carry_out(text, pid));
  constexpr size_t kRoom = UROCE_MSG_MAX - sizeof(uroce_msg);
  if (told.size() <= kRoom) return told;
  return dump(failure(fmt::format("the answer has {} bytes, a message has room for {}", told.size(), kRoom)));
}

json Admin::carry_out(std::string_view text, uint32_t pid) {
  const json request = json::parse(text, nullptr, false);
  if (!request.is_object()) return failure("a request is one JSON object, such as {\"command\":\"status\"}");
  const std::string command = text_member(request, "command");
  if (command == "status") return status(request);
  if (command == "doctor-facts") return doctor_facts();
  if (command == "log") return {{"ok", true}, {"log", newest_that_fit(recent_log())}};
  if (command == "link-add") return add_link(request);
  if (command == "link-delete") return delete_link(request);
  if (command == "link-set") return set_link(request);
  if (command == "stop") {
    leave_(fmt::format("asked by process {}", pid));
    return {{"ok", true}};
  }
  return failure("'command' must be status, doctor-facts, log, link-add, link-delete, link-set or stop");
}

json Admin::status(const json& request) const {
  Page devices(request, "next_device"), contexts(request, "next_context");
  devices_.for_each([&](uint32_t position) {
    if (devices.wants(position)) devices.add(position, device_status(position));
  });
  contexts_.for_each([&](uint32_t slot, const ContextRecord&) {
    if (contexts.wants(slot)) contexts.add(slot, context_status(slot));
  });
  const State& state = registry_.state();
  const auto& broker = broker_.counters();
  json told = {{"ok", true},
               {"version", UROCE_VERSION},
               {"pid", getpid()},
               {"keeper_pid", state.keeper_pid},
               {"worker_generation", state.generation},
               {"uptime_s", static_cast<uint64_t>(time(nullptr)) - state.started_at},
               {"uid", geteuid()},
               {"netns", own_netns_inode()},
               {"tree", state.tree},
               {"clients", connections_.count()},
               {"devices", devices.entries()},
               {"contexts", contexts.entries()},
               {"relay",
                {{"relayed", broker.relayed},
                 {"no_such_slot", broker.no_such_slot},
                 {"not_taken", broker.not_taken},
                 {"malformed", broker.malformed}}},
               {"connection_manager", connection_manager()},
               {"control_slot_dropped", slots_.dropped_by_control_slot()},
               {"warnings", warnings()}};
  if (module_.attached()) told["kernel_module"] = kernel_module();
  devices.tell_next(told);
  contexts.tell_next(told);
  return told;
}

json Admin::device_status(uint32_t position) const {
  const DeviceFacts facts = devices_.facts(position);
  const DeviceRecord& record = registry_.device(position);
  json gids = json::array(), counters = json::object();
  for (size_t i = 0; i < facts.gids.size(); ++i) {
    if (facts.gids[i].ifindex == 0) continue;
    gids.push_back({{"index", i},
                    {"gid", gid_text(facts.gids[i].gid)},
                    {"address", address_text(facts.gids[i].gid)},
                    {"netdev", facts.gid_netdevs[i]}});
  }
  const CounterValues values = contexts_.counters(position);
  for (uint32_t i = 0; i < UROCE_CNT_COUNT; ++i) counters[std::string(counter_name(i))] = values[i];
  return {{"name", facts.name},
          {"index", facts.index},
          {"uverbs", fmt::format("uverbs{}", facts.uverbs_minor)},
          {"node_guid", guid_text(facts.node_guid_be)},
          {"netdev", facts.netdev},
          {"netdev_mtu", facts.netdev_mtu},
          {"state", facts.up ? "ACTIVE" : "DOWN"},
          {"active_mtu", facts.mtu == 0 ? 0 : 128 << facts.mtu},
          {"rate", rate_text(facts.rate)},
          {"transport", kTransports[record.transport % std::size(kTransports)]},
          {"min_timeout_ms", record.min_timeout_ms},
          {"gids", gids},
          {"counters", counters}};
}

json Admin::context_status(uint32_t slot) const {
  const ContextRecord& context = registry_.context(slot);
  json objects = json::object();
  for (uint32_t kind = 1; kind < kObjectKinds; ++kind) {
    objects[std::string(kKinds[kind])] = context.kind_counts[kind];
  }
  return {{"slot", slot},
          {"device", registry_.device(context.device).name},
          {"pid", context.pid},
          {"command", command_name(static_cast<pid_t>(context.pid))},
          {"age_s", static_cast<uint64_t>(time(nullptr)) - context.opened_at},
          {"device_gone", context.fatal != 0},
          {"transport", contexts_.page(slot).transport_text()},
          {"objects", objects}};
}

json Admin::connection_manager() const {
  const cm::IbCm::Counters& mads = rdma_cm_.manager().counters();
  const Gsi::Counters& gsi = rdma_cm_.gsi_counters();
  size_t listeners = 0;
  rdma_cm_.manager().for_each([&](const cm::CmId& id) { listeners += id.state == cm::IdState::listen; });
  return {{"identifiers", rdma_cm_.manager().count()},
          {"listeners", listeners},
          {"received", mads.received},
          {"sent", mads.sent},
          {"retransmitted", mads.retransmitted},
          {"duplicates", mads.duplicates},
          {"malformed", mads.malformed},
          {"unexpected", mads.unexpected},
          {"stale", mads.stale},
          {"no_resources", mads.no_resources},
          {"not_for_qp1", gsi.not_for_gsi},
          {"foreign_address", gsi.foreign_address}};
}

json Admin::kernel_module() const {
  const ModuleDevices::Counters& mads = module_.counters();
  return {{"links", module_.names()},
          {"sent", mads.sent},
          {"received", mads.received},
          {"other_qp", mads.other_qp},
          {"refused", mads.refused},
          {"dropped_outgoing", mads.dropped_outgoing},
          {"dropped_incoming", mads.dropped_incoming}};
}

json Admin::warnings() const {
  json list = json::array();
  // The kernel reports twice what a program may use.
  if (slots_.is_open() && slots_.receive_buffer() / 2 < kWantedReceiveBuffer) {
    list.push_back(fmt::format(
        "receive buffers are {} KiB instead of {} KiB, so bursts may be lost; root can allow more: sysctl -w "
        "net.core.rmem_max={}",
        slots_.receive_buffer() / 2048, kWantedReceiveBuffer / 1024, kWantedReceiveBuffer));
  }
  devices_.for_each([&](uint32_t position) {
    const DeviceFacts facts = devices_.facts(position);
    if (!facts.up)
      list.push_back(fmt::format("{} is down: {} is not up and running", facts.name, facts.netdev));
    bool any_gid = false;
    for (const auto& gid : facts.gids) any_gid = any_gid || gid.ifindex != 0;
    if (!any_gid) list.push_back(fmt::format("{} has no GID: give {} an address", facts.name, facts.netdev));
  });
  return list;
}

json Admin::doctor_facts() const {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  return {{"ok", true},
          {"version", UROCE_VERSION},
          {"uid", geteuid()},
          {"rmem_max", number_in("/proc/sys/net/core/rmem_max")},
          {"wmem_max", number_in("/proc/sys/net/core/wmem_max")},
          {"receive_buffer", slots_.receive_buffer() / 2},
          {"open_files_limit", static_cast<uint64_t>(files.rlim_cur)},
          {"port_open", slots_.is_open()},
          {"contexts", contexts_.live()},
          {"most_contexts", UROCE_SLOT_LAST},
          {"tree", registry_.state().tree},
          {"netns", own_netns_inode()},
          {"netns_named", netns_has_name(own_netns_inode())},
          {"warnings", warnings()}};
}

json Admin::add_link(const json& request) {
  std::string why;
  const int error =
      devices_.add(text_member(request, "device"), "uroce", text_member(request, "netdev"), why);
  return error == 0 ? json{{"ok", true}} : failure(error, why);
}

json Admin::delete_link(const json& request) {
  const std::string name = text_member(request, "device");
  const auto position = devices_.by_name(name);
  if (!position) return failure(ENODEV, fmt::format("there is no device '{}'", name));
  devices_.remove(*position, "asked for");
  return {{"ok", true}};
}

json Admin::set_link(const json& request) {
  const std::string name = text_member(request, "device");
  const auto position = devices_.by_name(name);
  if (!position) return failure(ENODEV, fmt::format("there is no device '{}'", name));
  const auto transport = request.find("transport");
  const auto timeout = request.find("min-timeout-ms");
  if (transport == request.end() && timeout == request.end())
    return failure("nothing to set: transport, min-timeout-ms");
  if (timeout != request.end() && (!timeout->is_number_unsigned() || timeout->get<uint64_t>() > 60'000))
    return failure("min-timeout-ms is a number from 0 to 60000");
  if (transport != request.end()) {
    const auto at = transport->is_string() ? std::find(std::begin(kTransports), std::end(kTransports),
                                                       transport->get<std::string>())
                                           : std::end(kTransports);
    if (at == std::end(kTransports)) return failure("transport is auto, udp, xdp or local");
    if (at - std::begin(kTransports) > UROCE_TRANSPORT_UDP)
      return failure("transport " + std::string(*at) + " is not in this build: it has auto and udp");
    devices_.set_transport(*position, static_cast<uint32_t>(at - std::begin(kTransports)));
  }
  if (timeout != request.end()) devices_.set_minimum_timeout(*position, timeout->get<uint32_t>());
  return {{"ok", true}};
}

}  // namespace uroce::daemon
