// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "netlink/rdma/handlers.h"

#include <array>

namespace uroce::netlink {

namespace {

constexpr bool kAdministratorsOnly = true;

constexpr auto kHandlers = [] {
  std::array<Handler, RDMA_NLDEV_NUM_OPS> table{};
  table[RDMA_NLDEV_CMD_GET] = {get_device, dump_devices};
  table[RDMA_NLDEV_CMD_SET] = {set_device, nullptr, kAdministratorsOnly};
  table[RDMA_NLDEV_CMD_NEWLINK] = {new_link, nullptr, kAdministratorsOnly};
  table[RDMA_NLDEV_CMD_DELLINK] = {delete_link, nullptr, kAdministratorsOnly};
  table[RDMA_NLDEV_CMD_PORT_GET] = {get_port, dump_ports};
  table[RDMA_NLDEV_CMD_SYS_GET] = {get_system};
  table[RDMA_NLDEV_CMD_SYS_SET] = {set_system, nullptr, kAdministratorsOnly};
  table[RDMA_NLDEV_CMD_RES_GET] = {get_resource_summary, dump_resource_summaries};
  for (const int kind : {RDMA_NLDEV_CMD_RES_QP_GET, RDMA_NLDEV_CMD_RES_CM_ID_GET, RDMA_NLDEV_CMD_RES_CQ_GET,
                         RDMA_NLDEV_CMD_RES_MR_GET, RDMA_NLDEV_CMD_RES_PD_GET, RDMA_NLDEV_CMD_RES_CTX_GET,
                         RDMA_NLDEV_CMD_RES_SRQ_GET}) {
    table[static_cast<size_t>(kind)] = {get_resource, dump_resources};
  }
  for (const int raw :
       {RDMA_NLDEV_CMD_RES_QP_GET_RAW, RDMA_NLDEV_CMD_RES_CQ_GET_RAW, RDMA_NLDEV_CMD_RES_MR_GET_RAW}) {
    table[static_cast<size_t>(raw)] = {refuse_raw_resource, refuse_raw_resources, kAdministratorsOnly};
  }
  table[RDMA_NLDEV_CMD_GET_CHARDEV] = {get_chardev};
  table[RDMA_NLDEV_CMD_STAT_GET] = {get_statistic, dump_statistics};
  table[RDMA_NLDEV_CMD_STAT_SET] = {set_statistic, nullptr, kAdministratorsOnly};
  table[RDMA_NLDEV_CMD_STAT_DEL] = {delete_statistic, nullptr, kAdministratorsOnly};
  table[RDMA_NLDEV_CMD_STAT_GET_STATUS] = {get_statistic_status};
  return table;
}();

}  // namespace

const Handler* find_handler(uint16_t message_type) {
  const unsigned operation = RDMA_NL_GET_OP(message_type);
  if (RDMA_NL_GET_CLIENT(message_type) != RDMA_NL_NLDEV || operation >= kHandlers.size()) return nullptr;
  const Handler& handler = kHandlers[operation];
  return handler.answer == nullptr ? nullptr : &handler;
}

}  // namespace uroce::netlink
