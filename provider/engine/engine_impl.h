// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#pragma once

#include "provider/engine/core.h"
#include "provider/engine/engine.h"

namespace uroce::engine {

struct Engine::Impl {
  Impl(const EngineConfig& config, MemoryAccess& memory) : core(config, memory) { core.reserve_events(); }
  Core core;
};

}  // namespace uroce::engine
