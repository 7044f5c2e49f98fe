// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/runtime/clock.h"

#include <ctime>

namespace uroce::runtime {

engine::Time now() {
  timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return engine::Time{static_cast<int64_t>(ts.tv_sec) * 1'000'000'000 + ts.tv_nsec};
}

}  // namespace uroce::runtime
