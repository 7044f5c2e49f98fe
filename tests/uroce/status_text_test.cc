// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroce/status_text.h"

#include <gtest/gtest.h>

namespace uroce::cli {
namespace {

using nlohmann::json;

TEST(StatusText, tells_devices_programs_and_warnings) {
  const json status = {
      {"version", "0.1.0"},
      {"pid", 12},
      {"uptime_s", 7500},
      {"devices",
       {{{"name", "ur0"},
         {"state", "ACTIVE"},
         {"netdev", "eth0"},
         {"gids", {{{"index", 1}, {"gid", "::"}, {"address", "192.0.2.1"}, {"netdev", "eth0"}}}},
         {"counters", {{"sent_pkts", 5}, {"send_err", 0}}}}}},
      {"contexts",
       {{{"command", "ib_write_bw"}, {"pid", 99}, {"device", "ur0"}, {"objects", {{"qp", 2}, {"cq", 0}}}}}},
      {"warnings", {"eth0 has no address"}}};
  const std::string text = status_text(status);
  for (const char* part :
       {"uroced 0.1.0, process 12, up 2 h 5 min", "ur0: ACTIVE on eth0", "192.0.2.1", "sent_pkts 5",
        "ib_write_bw (process 99) uses ur0", "2 qp", "warning: eth0 has no address"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
  }
  EXPECT_EQ(text.find("send_err"), std::string::npos) << "counters at 0 are left out";
}

TEST(StatusText, says_how_to_make_a_device_when_there_is_none) {
  EXPECT_NE(status_text(json::object()).find("rdma link add"), std::string::npos);
}

TEST(StatusText, durations) {
  EXPECT_EQ(duration_text(59), "59 s");
  EXPECT_EQ(duration_text(3599), "59 min");
  EXPECT_EQ(duration_text(3600), "1 h 0 min");
  EXPECT_EQ(duration_text(90'000), "1 d 1 h");
}

TEST(StatusText, names_that_are_no_utf8_are_printed_all_the_same) {
  EXPECT_NE(json_text({{"command", "\xff\xfe"}}), "");
}

}  // namespace
}  // namespace uroce::cli
