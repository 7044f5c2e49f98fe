// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/verbs/library.h"

#include <dlfcn.h>

#include <cstring>
#include <memory>
#include <vector>

namespace uroce::verbs {

namespace {

Library g_library;

// Scratch memory for the probes: larger than anything a library writes at, filled with a value that is never
// a valid answer.
constexpr size_t kScratchBytes = 8192;
constexpr uint32_t kFakeOps = 160;

std::string supported() {
  return "supported: rdma-core 34 to 64 (provider ABI 34, 57, 59, 64; 73, 75, 76, 79, 81 or 83 operations)";
}

// Calls set_ops with numbered pointers on a fake context and reads where they went. The layout must explain
// every place we know.
struct OpsProbe {
  uint32_t count = 0;
  std::vector<uintptr_t> context;  // fake verbs_context and what lies behind
};

OpsProbe probe_ops(void (*set_ops)(abi::verbs_context*, const void*)) {
  OpsProbe probe;
  std::vector<uintptr_t> priv(kScratchBytes / sizeof(uintptr_t));
  // Every word of the fake context points at the scratch private area, so wherever `priv` lies, it is found.
  probe.context.assign(kScratchBytes / sizeof(uintptr_t), reinterpret_cast<uintptr_t>(priv.data()));
  static char targets[kFakeOps];
  uintptr_t ops[kFakeOps];
  for (uint32_t i = 0; i < kFakeOps; ++i) ops[i] = reinterpret_cast<uintptr_t>(&targets[i]);
  set_ops(reinterpret_cast<abi::verbs_context*>(probe.context.data()), ops);
  const uintptr_t* stored = priv.data() + abi::kPrivOps / sizeof(uintptr_t);
  while (probe.count < kFakeOps && stored[probe.count] == ops[probe.count]) ++probe.count;
  // From here on the words tell the index they were taken from; others become kFakeOps.
  for (uintptr_t& word : probe.context) {
    const uintptr_t first = reinterpret_cast<uintptr_t>(targets);
    word = word >= first && word < first + kFakeOps ? word - first : kFakeOps;
  }
  return probe;
}

bool explains(const abi::Layout& layout, const OpsProbe& probe) {
  if (layout.op_count != probe.count) return false;
  struct Known {
    abi::Op op;
    size_t slot;
  };
  constexpr Known known[] = {
      {abi::Op::alloc_mw, offsetof(ibv_context_ops, alloc_mw)},
      {abi::Op::bind_mw, offsetof(ibv_context_ops, bind_mw)},
      {abi::Op::dealloc_mw, offsetof(ibv_context_ops, dealloc_mw)},
      {abi::Op::poll_cq, offsetof(ibv_context_ops, poll_cq)},
      {abi::Op::post_recv, offsetof(ibv_context_ops, post_recv)},
      {abi::Op::post_send, offsetof(ibv_context_ops, post_send)},
      {abi::Op::post_srq_recv, offsetof(ibv_context_ops, post_srq_recv)},
      {abi::Op::req_notify_cq, offsetof(ibv_context_ops, req_notify_cq)},
  };
  for (const Known& k : known) {
    const size_t offset = layout.context_offset + offsetof(ibv_context, ops) + k.slot;
    if (probe.context[offset / sizeof(uintptr_t)] != layout.index_of(k.op)) return false;
  }
  return true;
}

// ibv_qp_to_qp_ex tests one bit of comp_mask, wherever that lies.
uint32_t probe_comp_mask_offset(ibv_qp_ex* (*qp_to_qp_ex)(ibv_qp*)) {
  alignas(16) unsigned char scratch[kScratchBytes];
  for (uint32_t offset : abi::kQpCompMaskOffsets) {
    std::memset(scratch, 0, sizeof(scratch));
    std::memcpy(scratch + offset, &abi::kQpMaskEx, sizeof(abi::kQpMaskEx));
    if (qp_to_qp_ex(reinterpret_cast<ibv_qp*>(scratch)) != nullptr) return offset;
  }
  return 0;
}

template <typename F>
bool find(void* handle, const char* name, const char* version, F*& out) {
  out = reinterpret_cast<F*>(version != nullptr ? dlvsym(handle, name, version) : dlsym(handle, name));
  return out != nullptr;
}

// The ABI number of the library is in the name of its registration function.
uint32_t find_pabi(void* handle, Library& out, std::string& version) {
  for (uint32_t pabi : abi::kPabiNumbers) {
    version = "IBVERBS_PRIVATE_" + std::to_string(pabi);
    const std::string name = "verbs_register_driver_" + std::to_string(pabi);
    if (find(handle, name.c_str(), version.c_str(), out.register_driver)) return pabi;
  }
  return 0;
}

}  // namespace

std::optional<Library> probe_layout(const LibraryFunctions& functions, std::string& why) {
  const OpsProbe probe = probe_ops(functions.set_ops);
  Library found;
  found.pabi = functions.pabi;
  for (const abi::Layout& layout : abi::kLayouts) {
    const bool pabi_fits = layout.pabi_min <= functions.pabi && functions.pabi <= layout.pabi_max;
    if (pabi_fits && explains(layout, probe)) found.layout = &layout;
  }
  if (found.layout == nullptr) {
    why = "this libibverbs has provider ABI " + std::to_string(functions.pabi) + " with " +
          std::to_string(probe.count) + " operations in a layout that is not known; " + supported();
    return std::nullopt;
  }
  found.qp_comp_mask_offset = probe_comp_mask_offset(functions.qp_to_qp_ex);
  if (found.qp_comp_mask_offset == 0) {
    why = "this libibverbs (provider ABI " + std::to_string(functions.pabi) +
          ") keeps the extended queue pair's mask at an offset that is not known; " + supported();
    return std::nullopt;
  }
  return found;
}

std::optional<Library> find_library(std::string& why) {
  void* handle = dlopen("libibverbs.so.1", RTLD_NOLOAD | RTLD_NOW);
  if (handle == nullptr) {
    why = "libibverbs.so.1 is not loaded in this process; " + supported();
    return std::nullopt;
  }
  Library symbols;
  std::string version;
  const uint32_t pabi = find_pabi(handle, symbols, version);
  if (pabi == 0) {
    why = "this libibverbs has none of the registration functions verbs_register_driver_{34,57,59,64}; " +
          supported();
    return std::nullopt;
  }
  LibraryFunctions functions;
  functions.pabi = pabi;
  const char* missing = nullptr;
  const char* const v = version.c_str();
  if (!find(handle, "_verbs_init_and_alloc_context", v, symbols.init_and_alloc_context)) {
    missing = "_verbs_init_and_alloc_context";
  }
  if (!find(handle, "verbs_set_ops", v, symbols.set_ops)) missing = "verbs_set_ops";
  if (!find(handle, "verbs_uninit_context", v, symbols.uninit_context)) missing = "verbs_uninit_context";
  if (!find(handle, "ibv_qp_to_qp_ex", nullptr, functions.qp_to_qp_ex)) missing = "ibv_qp_to_qp_ex";
  if (missing != nullptr) {
    why = std::string("this libibverbs (provider ABI ") + std::to_string(pabi) + ") has no function " +
          missing + "; " + supported();
    return std::nullopt;
  }
  functions.set_ops = symbols.set_ops;
  std::optional<Library> found = probe_layout(functions, why);
  if (!found) return found;
  found->register_driver = symbols.register_driver;
  found->init_and_alloc_context = symbols.init_and_alloc_context;
  found->set_ops = symbols.set_ops;
  found->uninit_context = symbols.uninit_context;
  return found;
}

const Library& library() {
  return g_library;
}
void set_library(const Library& found) {
  g_library = found;
}

bool uses_ioctl_write(const ibv_context* context) {
  const char* priv = nullptr;
  std::memcpy(&priv, reinterpret_cast<const char*>(context) - abi::kPrivBeforeContext, sizeof(priv));
  return priv != nullptr && priv[abi::kPrivUseIoctlWrite] != 0;
}

}  // namespace uroce::verbs
