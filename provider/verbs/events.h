// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Acknowledged events (ibv_get_async_event(3), ibv_get_cq_event(3)): destroying an object waits until the
// program has acknowledged every event that was delivered for it. How many those were is in the answer to the
// DESTROY command.
#pragma once

#include <pthread.h>

#include <cstdint>

namespace uroce::verbs {

// libibverbs counts acknowledgements in `completed` under `mutex` and signals `cond`.
inline void wait_until_acknowledged(pthread_mutex_t& mutex, pthread_cond_t& cond, const uint32_t& completed,
                                    uint32_t delivered) {
  pthread_mutex_lock(&mutex);
  while (completed != delivered) pthread_cond_wait(&cond, &mutex);
  pthread_mutex_unlock(&mutex);
}

}  // namespace uroce::verbs
