// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <cstdlib>

#include "tests/fuzz/cm_feeder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  uroce::fuzz::CmFeeder feeder;
  feeder.feed({data, size});
  if (!feeder.sound()) std::abort();
  return 0;
}
