// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/runtime/clock.h"

#include <ctime>

namespace uroce::runtime {

engine::Time now() {
  timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return engine::Time{static_cast<int64_t>(ts.tv_sec) * 1'000'000'000 + ts.tv_nsec};
}

int64_t wallclock_offset_ns() {
  timespec real;
  clock_gettime(CLOCK_REALTIME, &real);
  return static_cast<int64_t>(real.tv_sec) * 1'000'000'000 + real.tv_nsec - now().ns;
}

}  // namespace uroce::runtime
