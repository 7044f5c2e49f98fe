// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// One function per command of RDMA_NL_NLDEV, and the table that names them. They return 0 or a positive
// errno, the kernel's own where it has the same case; `answer.text` says more.
#pragma once

#include "netlink/rdma/dump_writer.h"
#include "netlink/rdma/request.h"

namespace uroce::netlink {

struct Handler {
  int (*answer)(RdmaModel& model, const Request& request, Answer& answer) = nullptr;
  // Writes from item `position` on and moves it. Complete when it returns and the writer is not full.
  int (*dump)(const RdmaModel& model, const Request& request, size_t& position, DumpWriter& writer) = nullptr;
  bool administrators_only = false;
};

// nullptr: no such command.
const Handler* find_handler(uint16_t message_type);

// Devices
int get_device(RdmaModel&, const Request&, Answer&);
int dump_devices(const RdmaModel&, const Request&, size_t& position, DumpWriter&);
int set_device(RdmaModel&, const Request&, Answer&);
int get_chardev(RdmaModel&, const Request&, Answer&);

// Links
int new_link(RdmaModel&, const Request&, Answer&);
int delete_link(RdmaModel&, const Request&, Answer&);
int get_port(RdmaModel&, const Request&, Answer&);
int dump_ports(const RdmaModel&, const Request&, size_t& position, DumpWriter&);

// The RDMA system of the namespace
int get_system(RdmaModel&, const Request&, Answer&);
int set_system(RdmaModel&, const Request&, Answer&);

// Resources; the operation of the request says which kind
int get_resource_summary(RdmaModel&, const Request&, Answer&);
int dump_resource_summaries(const RdmaModel&, const Request&, size_t& position, DumpWriter&);
int get_resource(RdmaModel&, const Request&, Answer&);
int dump_resources(const RdmaModel&, const Request&, size_t& position, DumpWriter&);
int refuse_raw_resource(RdmaModel&, const Request&, Answer&);
int refuse_raw_resources(const RdmaModel&, const Request&, size_t& position, DumpWriter&);

// Statistics
int get_statistic(RdmaModel&, const Request&, Answer&);
int dump_statistics(const RdmaModel&, const Request&, size_t& position, DumpWriter&);
int set_statistic(RdmaModel&, const Request&, Answer&);
int delete_statistic(RdmaModel&, const Request&, Answer&);
int get_statistic_status(RdmaModel&, const Request&, Answer&);

}  // namespace uroce::netlink
