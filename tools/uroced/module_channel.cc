// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroced/module_channel.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>

#include <cerrno>
#include <cstring>

namespace uroce::daemon {

namespace {

constexpr const char* kNode = "/dev/" UROCE_CHANNEL_NODE;

Fd open_node(KeeperLine& keeper, std::string& why) {
  Fd fd(::open(kNode, O_RDWR | O_CLOEXEC | O_NONBLOCK));
  if (!fd) {
    if (errno != ENOENT && errno != ENXIO && errno != ENODEV)
      why = fmt::format("cannot open {}: {}", kNode, std::strerror(errno));
    return fd;
  }
  uint32_t version = 0;
  if (ioctl(fd.get(), UROCE_CHANNEL_VERSION_IOCTL, &version) != 0 || version != UROCE_CHANNEL_VERSION) {
    why = fmt::format(
        "the kernel module speaks version {} of its channel, this daemon {}: install one version of both",
        version, UROCE_CHANNEL_VERSION);
    fd.reset();
  } else if (!keeper.keep(Keep::module_channel, 0, fd.get())) {
    why = fmt::format("the keeper process does not take {}: {}", kNode, std::strerror(errno));
    fd.reset();
  }
  return fd;
}

}  // namespace

std::unique_ptr<ModuleChannel> ModuleChannel::open(KeeperLine& keeper, std::string& why) {
  Fd fd = keeper.take_inherited(Keep::module_channel, 0);
  if (!fd) fd = open_node(keeper, why);
  return fd ? std::unique_ptr<ModuleChannel>(new ModuleChannel(std::move(fd))) : nullptr;
}

bool ModuleChannel::set_ready(bool ready) {
  const uint32_t value = ready ? 1 : 0;
  return ioctl(fd_.get(), UROCE_CHANNEL_READY, &value) == 0;
}

uroce_channel_news ModuleChannel::take_news() {
  uroce_channel_news news{};
  if (ioctl(fd_.get(), UROCE_CHANNEL_NEWS, &news) != 0) return {};
  return news;
}

std::optional<uroce_channel_device> ModuleChannel::device_after(uint32_t index) const {
  uroce_channel_device device{};
  device.after = index;
  if (ioctl(fd_.get(), UROCE_CHANNEL_DEVICE, &device) != 0) return std::nullopt;
  device.name[sizeof device.name - 1] = '\0';
  return device;
}

int ModuleChannel::find_slot(uint32_t slot, uint64_t cookie, uroce_channel_slot& found) const {
  found = {};
  found.slot = slot;
  found.cookie = cookie;
  return ioctl(fd_.get(), UROCE_CHANNEL_SLOT, &found) == 0 ? 0 : errno;
}

bool ModuleChannel::release_slot(uint32_t slot) {
  return ioctl(fd_.get(), UROCE_CHANNEL_RELEASE, &slot) == 0;
}

bool ModuleChannel::read(uroce_channel_mad& mad) {
  return ::read(fd_.get(), &mad, sizeof mad) == static_cast<ssize_t>(sizeof mad);
}

bool ModuleChannel::write(const uroce_channel_mad& mad) {
  return ::write(fd_.get(), &mad, sizeof mad) == static_cast<ssize_t>(sizeof mad);
}

}  // namespace uroce::daemon
