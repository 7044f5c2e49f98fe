// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Memory windows of type 1 (ibv_bind_mw) and 2 (posted binds).
#pragma once

#include <infiniband/verbs.h>

#include "provider/engine/work.h"

namespace uroce::verbs {

ibv_mw* alloc_mw(ibv_pd* pd, ibv_mw_type type);
int dealloc_mw(ibv_mw* mw);

// ibv_bind_mw: posts the bind; the window's new rkey, which differs in its last 8 bits, is in mw->rkey when
// it returns.
int bind_mw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* bind) noexcept;

// A posted bind of a type 2 window. False: another type, no region, unknown rights, an rkey of another
// window.
bool describe_bind(const ibv_mw* mw, uint32_t rkey, const ibv_mw_bind_info& info,
                   engine::SendRequest::Bind& out);

}  // namespace uroce::verbs
