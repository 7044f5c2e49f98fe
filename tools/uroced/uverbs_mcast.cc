// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Multicast attachments: the provider joins the group on its socket; here they are counted and found again at
// the end.
#include "provider/wire/address.h"
#include "tools/uroced/uverbs_call.h"
#include "tools/uroced/uverbs_limits.h"

namespace uroce::daemon {

namespace {

constexpr uint32_t kUd = 4;

uint32_t find_attachment(const UverbsCall& call, uint32_t qp, const uint8_t (&gid)[16]) {
  uint32_t found = 0;
  call.registry.for_each_object(call.slot, [&](uint32_t index, const ObjectRecord& object) {
    if (object.kind == ObjectKind::mcast && object.mcast.qp == qp &&
        std::memcmp(object.mcast.gid, gid, sizeof gid) == 0) {
      found = index;
    }
  });
  return found;
}

uint32_t count_members(const UverbsCall& call, const uint8_t (&gid)[16]) {
  uint32_t members = 0;
  call.registry.for_each_object(call.slot, [&](uint32_t, const ObjectRecord& object) {
    if (object.kind == ObjectKind::mcast && std::memcmp(object.mcast.gid, gid, sizeof gid) == 0) members++;
  });
  return members;
}

}  // namespace

int attach_mcast(UverbsCall& call) {
  const auto request = call.request<ib_uverbs_attach_mcast>();
  const ObjectRecord* qp = call.find(ObjectKind::qp, request.qp_handle);
  wire::Gid gid;
  std::memcpy(gid.raw.data(), request.gid, sizeof request.gid);
  if (qp == nullptr || qp->qp.type != kUd || !gid.is_multicast()) return EINVAL;
  if (find_attachment(call, request.qp_handle, request.gid) != 0)
    return 0;  // twice is once, as in the kernel
  if (count_members(call, request.gid) >= kMostQpsPerGroup) return ENOMEM;
  const uint32_t handle = call.create(ObjectKind::mcast, 0);
  if (handle == 0) return errno;
  McastBody& body = call.edit(handle).mcast;
  body.qp = request.qp_handle;
  std::memcpy(body.gid, request.gid, sizeof body.gid);
  call.registry.add_user(request.qp_handle, 1);
  return 0;
}

int detach_mcast(UverbsCall& call) {
  const auto request = call.request<ib_uverbs_detach_mcast>();
  if (call.find(ObjectKind::qp, request.qp_handle) == nullptr) return EINVAL;
  const uint32_t attachment = find_attachment(call, request.qp_handle, request.gid);
  if (attachment == 0) return EINVAL;
  release_object(call.registry, attachment);
  return 0;
}

}  // namespace uroce::daemon
