// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Which attributes a change of state needs and allows (IBA 11.2.5.2, ibv_modify_qp(3)), as data.
#pragma once

#include "provider/engine/attributes.h"
#include "provider/engine/engine.h"

namespace uroce::engine {

// 0 or EINVAL: transition, mask and values. Changes nothing.
int check_modify(QpType type, QpState current, const QpAttributes& attributes, uint32_t mask,
                 const EngineConfig& config);

}  // namespace uroce::engine
