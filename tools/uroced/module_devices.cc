// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroced/module_devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "provider/wire/packet.h"
#include "tools/uroced/log.h"

namespace uroce::daemon {

namespace {

constexpr uint32_t kActive = 4, kDown = 1;  // enum ib_port_state
constexpr uint32_t kMinimumTimeoutMs = 100;
constexpr size_t kMostPerWakeUp = 64;

static_assert(UROCE_CHANNEL_GIDS == UROCE_GID_TABLE_LEN);
static_assert(UROCE_CHANNEL_MAD_BYTES == wire::kMadBytes);
static_assert(sizeof(uroce_channel_gid) == sizeof(uroce_gid_entry));

}  // namespace

ModuleDevices::ModuleDevices(Loop& loop, Registry& registry, KeeperLine& keeper, SlotGroup& slots,
                             Contexts& contexts, std::function<void(uint32_t slot)> end_context)
    : loop_(loop),
      registry_(registry),
      keeper_(keeper),
      slots_(slots),
      contexts_(contexts),
      end_context_(std::move(end_context)),
      gsi_(
          loop, slots,
          [this](const wire::Gid& destination, uint32_t ifindex, cm::Route& out) {
            return find_port(destination, ifindex, out);
          },
          [this](const cm::Route& from, std::span<const std::byte> mad) { receive(from, mad); }) {}

void ModuleDevices::attach() {
  std::string why;
  channel_ = ModuleChannel::open(keeper_, why);
  if (channel_ == nullptr) {
    if (!why.empty()) spdlog::warn("the kernel module is not served: {}", why);
    return;
  }
  slots_.give_to_module();
  // What the earlier worker knew of ended slots is lost: any may be one, and the module knows which.
  ended_.set();
  if (slots_.open_port_for_module(why) != 0 || !gsi_.open(why)) {
    spdlog::error("the links of the kernel module stay down: {}", why);
    return;
  }
  watch_ = std::make_unique<FdWatch>(loop_, channel_->descriptor(), [this] { on_readable(); });
  update_devices();
  release_slots();
  if (channel_->set_ready(true)) spdlog::info("the kernel module's links are served");
}

void ModuleDevices::on_readable() {
  const uroce_channel_news news = channel_->take_news();
  counters_.dropped_outgoing = news.dropped_outgoing;
  counters_.dropped_incoming = news.dropped_incoming;
  if (news.devices_changed != 0) update_devices();
  bool any_ended = false;
  for (uint32_t slot = UROCE_SLOT_FIRST; slot <= UROCE_SLOT_LAST; ++slot) {
    if ((news.ended[slot / 64] >> (slot % 64) & 1) == 0) continue;
    any_ended = true;
    ended_.set(slot);
    // Its process may still hold our socket: it is told, and the end of its connection is the context's.
    if (registry_.context(slot).state == SlotState::live) end_context_(slot);
  }
  if (any_ended) release_slots();
  uroce_channel_mad mad;
  for (size_t i = 0; i < kMostPerWakeUp && channel_->read(mad); ++i) send(mad);
}

// ---- slots

int ModuleDevices::claim(uint32_t connection, uint32_t slot, uint64_t cookie, std::string& why) {
  const ContextRecord& context = registry_.context(std::min(slot, uint32_t{UROCE_SLOT_LAST}));
  // Said again after a restart of the worker.
  if (context.state == SlotState::live && context.connection == connection && context.cookie == cookie)
    return 0;
  uroce_channel_slot found;
  if (const int error = channel_->find_slot(slot, cookie, found); error != 0) {
    why = fmt::format("the kernel module knows no such owner of context {}: {}", slot, std::strerror(error));
    return error;
  }
  const uint32_t pid = registry_.connection(connection).pid;
  if (found.pid != pid) {
    why = fmt::format(
        "context {} belongs to process {}, not to process {}; open the device anew in this process", slot,
        found.pid, pid);
    return EPERM;
  }
  update_devices();  // a program may be faster than the news of its link
  for (uint32_t position = 0; position < kMaxDevices; ++position) {
    if (!is_ours(position) || registry_.device(position).index != found.device) continue;
    return contexts_.open_given(slot, position, connection, cookie, why);
  }
  why = fmt::format("the kernel module has no link {} in this network namespace", found.device);
  return ENODEV;
}

bool ModuleDevices::owns(uint32_t connection) const {
  const uint32_t slot = registry_.connection(connection).slot;
  if (!attached() || slot < UROCE_SLOT_FIRST || slot > UROCE_SLOT_LAST) return false;
  const ContextRecord& context = registry_.context(slot);
  return context.state == SlotState::live && context.connection == connection;
}

void ModuleDevices::release_slots() {
  if (!attached()) return;
  for (uint32_t slot = UROCE_SLOT_FIRST; slot <= UROCE_SLOT_LAST; ++slot) {
    if (!ended_.test(slot) || registry_.context(slot).state != SlotState::clean) continue;
    channel_->release_slot(slot);  // refused where it had not ended
    ended_.reset(slot);
  }
}

// ---- links

void ModuleDevices::update_devices() {
  std::bitset<kMaxDevices> seen;
  uint32_t after = UROCE_CHANNEL_FIRST;
  while (const auto now = channel_->device_after(after)) {
    after = now->index;
    const uint32_t position = position_of(now->index);
    if (position == kMaxDevices) continue;
    seen.set(position);
    publish(position, *now);
  }
  for (uint32_t position = 0; position < kMaxDevices; ++position) {
    if (is_ours(position) && !seen.test(position)) remove(position);
  }
}

std::vector<std::string> ModuleDevices::names() const {
  std::vector<std::string> all;
  for (uint32_t position = 0; position < kMaxDevices; ++position) {
    if (is_ours(position)) all.emplace_back(registry_.device(position).name);
  }
  return all;
}

// Of the link with this index; a free one for a new link. kMaxDevices: there are too many.
uint32_t ModuleDevices::position_of(uint32_t index) {
  uint32_t position = 0;
  while (position < kMaxDevices && !(is_ours(position) && registry_.device(position).index == index))
    ++position;
  if (position == kMaxDevices) {
    position = 0;
    while (position < kMaxDevices && (is_ours(position) || registry_.device(position).live != 0)) ++position;
    if (position == kMaxDevices) {
      spdlog::warn("link {} of the kernel module is not served: there are {} already", index, kMaxDevices);
      return kMaxDevices;
    }
    DeviceRecord& device = registry_.edit(registry_.device(position));
    device = {};
    device.index = index;
    device.of_module = 1;
    device.min_timeout_ms = kMinimumTimeoutMs;
  }
  std::string why;
  if (!pages_[position].is_open() && !pages_[position].open(keeper_, position, why)) {
    spdlog::warn("link {} of the kernel module is not served: {}", index, why);
    registry_.edit(registry_.device(position).of_module) = 0;
    return kMaxDevices;
  }
  return position;
}

void ModuleDevices::publish(uint32_t position, const uroce_channel_device& now) {
  DeviceRecord& device = registry_.edit(registry_.device(position));
  std::snprintf(device.name, sizeof device.name, "%s", now.name);
  device.ifindex = now.ifindex;
  device.node_guid_be = now.node_guid;
  device.port_state = now.netdev_up != 0 ? kActive : kDown;
  std::memcpy(device.gids, now.gids, sizeof device.gids);
  pages_[position].write([&](uroce_device_page& page) {
    page.port_state = device.port_state;
    page.active_mtu = now.active_mtu;
    page.ifindex = now.ifindex;
    page.netdev_mtu = now.netdev_mtu;
    page.transport = device.transport;
    page.min_timeout_ms = device.min_timeout_ms;
    page.removed = 0;
    std::memcpy(page.gids, device.gids, sizeof page.gids);
  });
}

void ModuleDevices::remove(uint32_t position) {
  spdlog::info("link {} of the kernel module is gone", registry_.device(position).name);
  pages_[position].write([](uroce_device_page& page) {
    page.removed = 1;
    page.port_state = kDown;
  });
  contexts_.for_each([&](uint32_t slot, const ContextRecord& context) {
    if (context.device == position) end_context_(slot);
  });
  pages_[position].drop(keeper_, position);
  registry_.edit(registry_.device(position).of_module) = 0;
}

// ---- QP 1

bool ModuleDevices::find_port(const wire::Gid& destination, uint32_t ifindex, cm::Route& out) const {
  for (uint32_t position = 0; position < kMaxDevices; ++position) {
    if (!is_ours(position)) continue;
    for (const uroce_gid_entry& entry : registry_.device(position).gids) {
      if (std::memcmp(entry.gid, destination.raw.data(), sizeof entry.gid) != 0) continue;
      if (destination.is_link_local() && entry.ifindex != ifindex) continue;
      out.device = position;
      out.path.ifindex = entry.ifindex;
      return true;
    }
  }
  return false;
}

void ModuleDevices::send(const uroce_channel_mad& mad) {
  if (mad.remote_qpn != wire::kGsiQpn || mad.qkey != wire::kGsiQkey) {
    ++counters_.other_qp;
    return;
  }
  cm::Outgoing out;
  std::memcpy(out.route.path.source.raw.data(), mad.local, sizeof mad.local);
  std::memcpy(out.route.path.destination.raw.data(), mad.remote, sizeof mad.remote);
  out.route.path.traffic_class = mad.traffic_class;
  out.route.path.hop_limit = mad.hop_limit;
  out.route.path.flow_label = mad.flow_label;
  out.route.path.ifindex = mad.ifindex;
  std::memcpy(out.mad.data(), mad.mad, sizeof mad.mad);
  gsi_.send(out);
  ++counters_.sent;
}

void ModuleDevices::receive(const cm::Route& from, std::span<const std::byte> bytes) {
  uroce_channel_mad mad{};
  mad.device = registry_.device(from.device).index;
  mad.ifindex = from.path.ifindex;
  std::memcpy(mad.local, from.path.source.raw.data(), sizeof mad.local);
  std::memcpy(mad.remote, from.path.destination.raw.data(), sizeof mad.remote);
  mad.local_qpn = mad.remote_qpn = wire::kGsiQpn;
  mad.traffic_class = from.path.traffic_class;
  mad.hop_limit = from.path.hop_limit;
  std::memcpy(mad.mad, bytes.data(), std::min(bytes.size(), sizeof mad.mad));
  if (channel_->write(mad)) {
    ++counters_.received;
  } else {
    ++counters_.refused;
  }
}

}  // namespace uroce::daemon
