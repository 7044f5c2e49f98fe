// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// XRC domains. Opening one on a file shares it with whoever opens the same inode, but only within one
// process: the target QP lives in its process and could not reach an SRQ in another's memory.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include "tools/uroced/log.h"
#include "tools/uroced/uverbs_call.h"

namespace uroce::daemon {

namespace {

// The file behind a number of the client's: the descriptor it sent along, else what /proc shows of it.
int look_at_file(const UverbsCall& call, uint32_t number, struct stat& st) {
  if (!call.descriptors.empty()) return fstat(call.descriptors[0].get(), &st) == 0 ? 0 : errno;
  const std::string path = fmt::format("/proc/{}/fd/{}", call.pid, number);
  return stat(path.c_str(), &st) == 0 ? 0 : EBADF;
}

struct Others {
  bool in_process = false, elsewhere = false;
};

Others find_openers(const UverbsCall& call, const XrcdBody& wanted) {
  Others others;
  const Registry& registry = call.registry;
  for (uint32_t slot = UROCE_SLOT_FIRST; slot <= UROCE_SLOT_LAST; ++slot) {
    const ContextRecord& context = registry.context(slot);
    if (context.state != SlotState::live || context.device != call.device) continue;
    registry.for_each_object(slot, [&](uint32_t, const ObjectRecord& object) {
      if (object.kind != ObjectKind::xrcd || object.xrcd.inode != wanted.inode ||
          object.xrcd.file_device != wanted.file_device) {
        return;
      }
      (context.pid == registry.context(call.slot).pid ? others.in_process : others.elsewhere) = true;
    });
  }
  return others;
}

}  // namespace

int open_xrcd(UverbsCall& call) {
  const auto request = call.request<ib_uverbs_open_xrcd>();
  if ((request.oflags & ~static_cast<uint32_t>(O_CREAT | O_EXCL)) != 0) return EINVAL;
  XrcdBody body{};
  if (request.fd != ~0u) {
    struct stat st {};
    if (const int error = look_at_file(call, request.fd, st); error != 0) return error;
    body = {st.st_dev, st.st_ino};
    const Others others = find_openers(call, body);
    if (others.elsewhere) {
      spdlog::warn(
          "process {} wants an XRC domain on a file that another process has opened; they cannot share "
          "memory",
          call.pid);
      return EOPNOTSUPP;
    }
    if (!others.in_process && (request.oflags & O_CREAT) == 0) return EAGAIN;
    if (others.in_process && (request.oflags & O_EXCL) != 0) return EINVAL;
  }
  const uint32_t handle = call.create(ObjectKind::xrcd, 0);
  if (handle == 0) return errno;
  call.edit(handle).xrcd = body;
  call.reply.core(ib_uverbs_open_xrcd_resp{.xrcd_handle = handle});
  return 0;
}

int close_xrcd(UverbsCall& call) {
  const uint32_t handle = call.request<ib_uverbs_close_xrcd>().xrcd_handle;
  const ObjectRecord* xrcd = call.find(ObjectKind::xrcd, handle);
  if (xrcd == nullptr) return EINVAL;
  if (xrcd->users != 0) return EBUSY;
  release_object(call.registry, handle);
  return 0;
}

}  // namespace uroce::daemon
