// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// A daemon's status as a person reads it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace uroce::cli {

std::string status_text(const nlohmann::json& status);
std::string duration_text(uint64_t seconds);  // "2 h 5 min"
// As printed with --json: never throws, whatever bytes names have.
std::string json_text(const nlohmann::json& value);

}  // namespace uroce::cli
