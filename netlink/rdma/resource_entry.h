// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// What `rdma resource show` tells of one object of each kind. Keys are for administrators only.
#pragma once

#include "netlink/rdma/message_builder.h"
#include "netlink/rdma/model.h"

namespace uroce::netlink {

void put_entry(MessageBuilder& out, const PdView& pd, bool administrator);
void put_entry(MessageBuilder& out, const ContextView& context, bool administrator);
void put_entry(MessageBuilder& out, const CqView& cq, bool administrator);
void put_entry(MessageBuilder& out, const MrView& mr, bool administrator);
void put_entry(MessageBuilder& out, const SrqView& srq, bool administrator);
void put_entry(MessageBuilder& out, const QpView& qp, bool administrator);
void put_entry(MessageBuilder& out, const CmIdView& id, bool administrator);

// A QP has a port from INIT on; objects without one are on none.
bool is_on_port(const QpView& qp);
inline bool is_on_port(const CmIdView&) {
  return true;
}

}  // namespace uroce::netlink
