// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroced/log.h"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/ringbuffer_sink.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <cstdlib>

namespace uroce::daemon {

namespace {

constexpr size_t kRemembered = 256;
std::shared_ptr<spdlog::sinks::ringbuffer_sink_st> ring;

}  // namespace

void start_log(bool foreground) {
  ring = std::make_shared<spdlog::sinks::ringbuffer_sink_st>(kRemembered);
  std::vector<spdlog::sink_ptr> sinks{ring};
  if (foreground) sinks.push_back(std::make_shared<spdlog::sinks::stderr_sink_st>());
  std::string trouble;
  if (const char* file = std::getenv("UROCE_LOG"); file != nullptr && *file != '\0') {
    try {
      sinks.push_back(std::make_shared<spdlog::sinks::basic_file_sink_st>(file));
    } catch (const spdlog::spdlog_ex& error) {
      trouble = error.what();
    }
  }
  auto logger = std::make_shared<spdlog::logger>("uroced", sinks.begin(), sinks.end());
  logger->set_pattern("%Y-%m-%d %H:%M:%S.%e %l: %v");
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(logger);
  if (!trouble.empty()) spdlog::warn("UROCE_LOG is not written: {}", trouble);
}

std::vector<std::string> recent_log() {
  return ring == nullptr ? std::vector<std::string>{} : ring->last_formatted();
}

}  // namespace uroce::daemon
