// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// What happens when libibverbs loads this file: look which libibverbs it is, then register or say why not.
#include <cstdio>
#include <new>
#include <string>

#include "kmod-shim/uapi/uroce_abi.h"
#include "provider/verbs/context.h"
#include "provider/verbs/library.h"

namespace uroce::verbs {

namespace {

// Never by name: the name is the user's choice. The driver id comes with the netlink answer, the modalias
// with the sysfs tree.
constexpr abi::verbs_match_ent kMatchTable[] = {
    {nullptr, {.driver_id = UROCE_DRIVER_ID}, 0, 0, abi::MatchKind::driver_id},
    {nullptr, {.modalias = UROCE_MODALIAS}, 0, 0, abi::MatchKind::modalias},
    {nullptr, {.driver_id = 0}, 0, 0, abi::MatchKind::sentinel},
};

abi::verbs_device* alloc_device(abi::verbs_sysfs_dev*) noexcept {
  return new (std::nothrow) abi::verbs_device{};
}
void uninit_device(abi::verbs_device* device) noexcept {
  delete device;
}

constexpr abi::verbs_device_ops kDeviceOps = {
    .name = "uroce",
    .match_min_abi_version = UROCE_ABI_VERSION,
    .match_max_abi_version = UROCE_ABI_VERSION,
    .match_table = kMatchTable,
    .static_providers = nullptr,
    .match_device = nullptr,
    .alloc_context = alloc_context,
    .import_context = import_context,
    .alloc_device = alloc_device,
    .uninit_device = uninit_device,
};

void register_driver() {
  std::string why;
  const std::optional<Library> found = find_library(why);
  if (!found) {
    std::fprintf(stderr, "uroce: provider not used: %s\n", why.c_str());
    return;
  }
  set_library(*found);
  found->register_driver(&kDeviceOps);
}

__attribute__((constructor)) void load() noexcept {
  try {
    register_driver();
  } catch (...) {
    std::fputs("uroce: provider not used: out of memory\n", stderr);
  }
}

}  // namespace

}  // namespace uroce::verbs
