// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroce/environment.h"

#include <gtest/gtest.h>

#include <map>

namespace uroce::cli {
namespace {

const Installation kParts = {"/lib/uroce/liburoce-preload.so", "/lib/uroce/liburoce", "/lib/uroce/uroced",
                             false};

using Variables = std::map<std::string, std::string>;

GetVariable from(const Variables& variables) {
  return [&](const std::string& name) {
    const auto at = variables.find(name);
    return at == variables.end() ? std::nullopt : std::optional(at->second);
  };
}

Variables after(Variables variables, const std::vector<Change>& changes) {
  for (const Change& change : changes) {
    if (change.value) {
      variables[change.name] = *change.value;
    } else {
      variables.erase(change.name);
    }
  }
  return variables;
}

Variables entered(const Variables& before) {
  return after(before, entering(kParts, from(before)));
}

Variables left(const Variables& before) {
  return after(before, leaving(kParts, from(before)));
}

TEST(Environment, empty_one_gets_everything) {
  EXPECT_EQ(entered({}), (Variables{{"LD_PRELOAD", "/lib/uroce/liburoce-preload.so"},
                                    {"RDMAV_DRIVERS", "/lib/uroce/liburoce"},
                                    {"ASAN_OPTIONS", "verify_asan_link_order=0"},
                                    {"UROCE_DAEMON", "/lib/uroce/uroced"}}));
}

TEST(Environment, what_is_there_stays_behind_ours) {
  const Variables now = entered(
      {{"LD_PRELOAD", "/a.so /b.so"}, {"RDMAV_DRIVERS", "rxe;siw"}, {"ASAN_OPTIONS", "detect_leaks=0"}});
  EXPECT_EQ(now.at("LD_PRELOAD"), "/lib/uroce/liburoce-preload.so:/a.so /b.so");
  EXPECT_EQ(now.at("RDMAV_DRIVERS"), "/lib/uroce/liburoce:rxe;siw");
  EXPECT_EQ(now.at("ASAN_OPTIONS"), "detect_leaks=0:verify_asan_link_order=0");
}

TEST(Environment, entering_twice_changes_nothing) {
  const Variables once = entered({{"LD_PRELOAD", "/a.so"}});
  EXPECT_TRUE(entering(kParts, from(once)).empty());
  EXPECT_TRUE(
      entering(kParts, from(entered({{"LD_PRELOAD", "/a.so /lib/uroce/liburoce-preload.so"}}))).empty());
}

TEST(Environment, chosen_daemon_stays) {
  const Variables now = entered({{"UROCE_DAEMON", "/elsewhere/uroced"}});
  EXPECT_EQ(now.at("UROCE_DAEMON"), "/elsewhere/uroced");
  EXPECT_EQ(left(now).at("UROCE_DAEMON"), "/elsewhere/uroced");
}

TEST(Environment, leaving_undoes_entering) {
  EXPECT_EQ(left(entered({})), Variables{});
  const Variables before = {
      {"LD_PRELOAD", "/a.so"}, {"RDMAV_DRIVERS", "rxe"}, {"ASAN_OPTIONS", "detect_leaks=0"}};
  EXPECT_EQ(left(entered(before)), before);
}

TEST(Environment, leaving_what_was_never_entered_changes_nothing) {
  const Variables before = {{"LD_PRELOAD", "/a.so /b.so"}, {"RDMAV_DRIVERS", ""}};
  EXPECT_TRUE(leaving(kParts, from(before)).empty());
}

TEST(Environment, path_with_a_separator_is_refused) {
  EXPECT_EQ(unsuitable_paths(kParts), "");
  for (const char* bad : {"/my dir/x.so", "/a:b/x.so", "/a;b/x.so", "/a,b/x.so"}) {
    Installation parts = kParts;
    parts.stand_in = bad;
    EXPECT_NE(unsuitable_paths(parts).find(bad), std::string::npos);
  }
}

}  // namespace
}  // namespace uroce::cli
