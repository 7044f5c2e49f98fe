// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/verbs/xrc.h"

#include <sys/stat.h>

#include <memory>

#include "provider/verbs/boundary.h"
#include "provider/verbs/qp.h"

namespace uroce::verbs {

ibv_xrcd* open_xrcd(ibv_context* base, ibv_xrcd_init_attr* attributes) {
  constexpr uint32_t needed = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  Context& context = Context::of(base);
  if (int error = context.unusable(); error != 0) return fail(error);
  if ((attributes->comp_mask & ~needed) != 0) return fail(EOPNOTSUPP);
  if (attributes->comp_mask != needed) return fail(EINVAL);
  struct stat file {};
  if (attributes->fd >= 0 && fstat(attributes->fd, &file) != 0) return fail(errno);
  auto xrcd = std::make_unique<XrcDomain>();
  ib_uverbs_open_xrcd request{};
  request.fd = static_cast<uint32_t>(attributes->fd);
  request.oflags = static_cast<uint32_t>(attributes->oflags);
  ib_uverbs_open_xrcd_resp response{};
  if (int error = call(context.port(), IB_USER_VERBS_CMD_OPEN_XRCD, request, response); error != 0) {
    return fail(error);
  }
  xrcd->use.begin(context);
  xrcd->xrcd.context = base;
  xrcd->handle = response.xrcd_handle;
  xrcd->number = attributes->fd >= 0 ? context.xrc().enter_domain(file.st_dev, file.st_ino)
                                     : context.xrc().enter_private_domain();
  return &xrcd.release()->xrcd;
}

int close_xrcd(ibv_xrcd* base) {
  XrcDomain& xrcd = XrcDomain::of(base);
  Context& context = Context::of(base->context);
  if (context.closed()) {
    delete &xrcd;
    return 0;
  }
  if (int error = context.refused(); error != 0) return error;
  const ib_uverbs_close_xrcd request{.xrcd_handle = xrcd.handle};
  const int error = call(context.port(), IB_USER_VERBS_CMD_CLOSE_XRCD, request);
  if (error != 0 && !context.data().fatal()) return error;
  context.xrc().leave_domain(xrcd.number);
  delete &xrcd;
  return 0;
}

ibv_qp* open_qp(ibv_context* base, ibv_qp_open_attr* attributes) {
  constexpr uint32_t needed = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
  constexpr uint32_t known = needed | IBV_QP_OPEN_ATTR_CONTEXT;
  Context& context = Context::of(base);
  if (int error = context.unusable(); error != 0) return fail(error);
  if ((attributes->comp_mask & ~known) != 0) return fail(EOPNOTSUPP);
  if ((attributes->comp_mask & needed) != needed || attributes->xrcd == nullptr) return fail(EINVAL);
  if (attributes->qp_type != IBV_QPT_XRC_RECV) return fail(EINVAL);
  const XrcDomain& xrcd = XrcDomain::of(attributes->xrcd);

  auto qp = std::make_unique<QueuePair>();
  qp->use.begin(context);
  qp->owner = &context;
  qp->type = engine::QpType::xrc_target;
  qp->created = false;
  qp->xrc_domain = xrcd.number;
  if (!context.xrc().join_target(*qp, attributes->qp_num, xrcd.number)) return fail(EINVAL);
  ib_uverbs_open_qp request{};
  request.user_handle = reinterpret_cast<uintptr_t>(qp.get());
  request.pd_handle = xrcd.handle;
  request.qpn = attributes->qp_num;
  request.qp_type = static_cast<uint8_t>(attributes->qp_type);
  ib_uverbs_create_qp_resp response{};
  qp->base.qp_num = attributes->qp_num;
  if (int error = call(context.port(), IB_USER_VERBS_CMD_OPEN_QP, request, response); error != 0) {
    context.xrc().leave_target(*qp);
    return fail(error);
  }
  qp->base.context = base;
  if ((attributes->comp_mask & IBV_QP_OPEN_ATTR_CONTEXT) != 0) qp->base.qp_context = attributes->qp_context;
  qp->base.handle = response.qp_handle;
  qp->base.state = static_cast<ibv_qp_state>(qp->queue->state());
  qp->base.qp_type = IBV_QPT_XRC_RECV;
  return &qp.release()->base;
}

}  // namespace uroce::verbs
