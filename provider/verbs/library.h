// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The libibverbs that loaded us: its private functions, found by name so that one binary serves every ABI
// number, and the layout of its private structures, found by trying.
#pragma once

#include <optional>
#include <string>

#include "provider/verbs/private_abi.h"

namespace uroce::verbs {

struct Library {
  const abi::Layout* layout = nullptr;
  uint32_t pabi = 0;
  uint32_t qp_comp_mask_offset = 0;

  void (*register_driver)(const abi::verbs_device_ops*) = nullptr;
  void* (*init_and_alloc_context)(ibv_device*, int cmd_fd, size_t bytes, abi::verbs_context* offset,
                                  uint32_t driver_id) = nullptr;
  void (*set_ops)(abi::verbs_context*, const void* ops) = nullptr;
  void (*uninit_context)(abi::verbs_context*) = nullptr;
};

// How the probes see a library; a test gives its own.
struct LibraryFunctions {
  void (*set_ops)(abi::verbs_context*, const void* ops) = nullptr;
  ibv_qp_ex* (*qp_to_qp_ex)(ibv_qp*) = nullptr;
  uint32_t pabi = 0;
};

// Tries `functions` on scratch memory. nullopt with a sentence in `why` that says what was found and what is
// supported.
std::optional<Library> probe_layout(const LibraryFunctions& functions, std::string& why);

// Finds the loaded libibverbs and probes it. As probe_layout().
std::optional<Library> find_library(std::string& why);

// The library that plugin.cc registered with; valid before any other function of this plugin runs.
const Library& library();
void set_library(const Library& library);

// ---- what moves, by the layout in use
// ----------------------------------------------------------------------------

// Our context blocks begin with room for verbs_context, so that ibv_context ends at abi::kContextEnd in every
// version.
inline abi::verbs_context* offset_in_block(const abi::Layout& layout) {
  return reinterpret_cast<abi::verbs_context*>(abi::kContextEnd - sizeof(ibv_context) -
                                               layout.context_offset);
}
inline abi::verbs_context* private_context(ibv_context* context) {
  return reinterpret_cast<abi::verbs_context*>(reinterpret_cast<char*>(context) -
                                               library().layout->context_offset);
}
// The library found that the command descriptor answers ioctl INVOKE_WRITE.
bool uses_ioctl_write(const ibv_context* context);

}  // namespace uroce::verbs
