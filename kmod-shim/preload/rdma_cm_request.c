// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "kmod-shim/preload/rdma_cm_request.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

struct command_form {
  bool known;
  uint16_t needs;           // bytes of the request that the stand-in itself reads
  uint16_t response_at;     // where in the request the address for the answer is
  uint16_t least_response;  // 0: the command has no answer
};

#define NO_ANSWER \
  { .known = true }
#define ANSWER(request, least)                                                             \
  {                                                                                        \
    .known = true, .needs = offsetof(struct request, response) + sizeof(uint64_t),         \
    .response_at = offsetof(struct request, response), .least_response = (uint16_t)(least) \
  }

// What later kernels have added at the end of an answer, its reader may leave out.
static const struct command_form forms[] = {
    [RDMA_USER_CM_CMD_CREATE_ID] = ANSWER(rdma_ucm_create_id, sizeof(struct rdma_ucm_create_id_resp)),
    [RDMA_USER_CM_CMD_DESTROY_ID] = ANSWER(rdma_ucm_destroy_id, sizeof(struct rdma_ucm_destroy_id_resp)),
    [RDMA_USER_CM_CMD_BIND_IP] = NO_ANSWER,
    [RDMA_USER_CM_CMD_RESOLVE_IP] = NO_ANSWER,
    [RDMA_USER_CM_CMD_RESOLVE_ROUTE] = NO_ANSWER,
    [RDMA_USER_CM_CMD_QUERY_ROUTE] =
        ANSWER(rdma_ucm_query, offsetof(struct rdma_ucm_query_route_resp, ibdev_index)),
    [RDMA_USER_CM_CMD_CONNECT] = NO_ANSWER,
    [RDMA_USER_CM_CMD_LISTEN] = NO_ANSWER,
    [RDMA_USER_CM_CMD_ACCEPT] = NO_ANSWER,
    [RDMA_USER_CM_CMD_REJECT] = NO_ANSWER,
    [RDMA_USER_CM_CMD_DISCONNECT] = NO_ANSWER,
    [RDMA_USER_CM_CMD_INIT_QP_ATTR] = ANSWER(rdma_ucm_init_qp_attr, sizeof(struct ib_uverbs_qp_attr)),
    [RDMA_USER_CM_CMD_GET_EVENT] = ANSWER(rdma_ucm_get_event, offsetof(struct rdma_ucm_event_resp, reserved)),
    [RDMA_USER_CM_CMD_SET_OPTION] = {.known = true, .needs = sizeof(struct rdma_ucm_set_option)},
    [RDMA_USER_CM_CMD_NOTIFY] = NO_ANSWER,
    [RDMA_USER_CM_CMD_JOIN_IP_MCAST] = ANSWER(rdma_ucm_join_ip_mcast, sizeof(struct rdma_ucm_create_id_resp)),
    [RDMA_USER_CM_CMD_LEAVE_MCAST] = ANSWER(rdma_ucm_destroy_id, sizeof(struct rdma_ucm_destroy_id_resp)),
    [RDMA_USER_CM_CMD_MIGRATE_ID] = {.known = true,
                                     .needs = sizeof(struct rdma_ucm_migrate_id),
                                     .response_at = offsetof(struct rdma_ucm_migrate_id, response),
                                     .least_response = sizeof(struct rdma_ucm_migrate_resp)},
    // Of the three kinds of answers the shortest.
    [RDMA_USER_CM_CMD_QUERY] = ANSWER(rdma_ucm_query, sizeof(struct rdma_ucm_query_path_resp)),
    [RDMA_USER_CM_CMD_BIND] = NO_ANSWER,
    [RDMA_USER_CM_CMD_RESOLVE_ADDR] = NO_ANSWER,
    [RDMA_USER_CM_CMD_JOIN_MCAST] = ANSWER(rdma_ucm_join_mcast, sizeof(struct rdma_ucm_create_id_resp)),
};

int rdma_cm_parse(const void* bytes, size_t count, struct rdma_cm_request* out) {
  struct rdma_ucm_cmd_hdr header;
  if (count < sizeof header) return -EINVAL;
  memcpy(&header, bytes, sizeof header);
  if (header.cmd >= sizeof forms / sizeof forms[0] || header.in > count - sizeof header) return -EINVAL;
  const struct command_form* form = &forms[header.cmd];
  if (!form->known) return -ENOSYS;
  if (header.out < form->least_response) return -ENOSPC;
  if (count - sizeof header < form->needs) return -EINVAL;
  *out = (struct rdma_cm_request){.bytes = bytes, .count = count, .command = header.cmd};
  if (form->least_response == 0) return 0;
  memcpy(&out->response, (const char*)bytes + sizeof header + form->response_at, sizeof out->response);
  out->response_room = header.out;
  return out->response == 0 ? -EFAULT : 0;
}
