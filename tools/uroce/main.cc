// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// uroce: the command line.
#include <CLI/CLI.hpp>
#include <charconv>
#include <exception>
#include <functional>

#include "tools/uroce/commands.h"

namespace uroce::cli {
namespace {

using Action = std::function<int()>;

constexpr unsigned kLongestTimeoutMs = 60'000;  // what the daemon takes

// The command of `uroce run`, whose options are its own; empty when it is something else, such as --help.
std::vector<std::string> words_to_run(int argc, char** argv) {
  int at = 2;
  if (argc < 3 || std::string_view(argv[1]) != "run") return {};
  if (std::string_view(argv[at]) == "--") {
    at++;
  } else if (argv[at][0] == '-') {
    return {};
  }
  return {argv + at, argv + argc};
}

CLI::App* add_command(CLI::App& app, const std::string& name, const std::string& description, Action& chosen,
                      const Action& action) {
  CLI::App* command = app.add_subcommand(name, description);
  command->callback([&chosen, action] { chosen = action; });
  return command;
}

struct Options {
  bool json = false, unset = false, all = false, system = false;
  std::string device, netdev, program, root = "/";
  std::vector<std::string> settings;
};

// "transport udp min-timeout 100", as iproute2 takes its settings.
LinkSettings link_settings(const std::vector<std::string>& words) {
  LinkSettings settings;
  for (size_t i = 0; i < words.size(); i += 2) {
    if (i + 1 == words.size()) throw CLI::ValidationError(words[i], "needs a value");
    const std::string& value = words[i + 1];
    if (words[i] == "transport") {
      settings.transport = value;
    } else if (words[i] == "min-timeout") {
      unsigned number = 0;
      const char* end = value.data() + value.size();
      const auto [rest, trouble] = std::from_chars(value.data(), end, number);
      if (trouble != std::errc() || rest != end || number > kLongestTimeoutMs) {
        throw CLI::ValidationError("min-timeout",
                                   "'" + value + "' is not a number of milliseconds from 0 to 60000");
      }
      settings.min_timeout_ms = number;
    } else {
      throw CLI::ValidationError(words[i], "can be set: transport auto|udp, min-timeout MS");
    }
  }
  return settings;
}

void add_link_commands(CLI::App& app, Options& options, Action& chosen) {
  CLI::App* link = app.add_subcommand("link", "Make, remove and set devices; `rdma link` shows them");
  link->require_subcommand(1);
  CLI::App* add = add_command(
      *link, "add", "As `rdma link add DEV type uroce netdev NETDEV`, where that program is missing", chosen,
      [&] { return add_link(options.device, options.netdev); });
  add->add_option("DEV", options.device, "Name of the new device, such as ur0")->required();
  std::string* word = &options.program;
  add->add_option("netdev", *word, "The word `netdev`")->required()->check(CLI::IsMember({"netdev"}));
  add->add_option("NETDEV", options.netdev, "The netdev it is to work over")->required();
  CLI::App* remove =
      add_command(*link, "delete", "Remove a device", chosen, [&] { return delete_link(options.device); });
  remove->add_option("DEV", options.device, "The device")->required();
  CLI::App* set = add_command(*link, "set", "Change a device: transport auto|udp, min-timeout MS", chosen,
                              [&] { return set_link(options.device, link_settings(options.settings)); });
  set->add_option("DEV", options.device, "The device")->required();
  set->add_option("SETTING", options.settings,
                  "transport auto|udp: how packets travel. min-timeout MS: no connection gives up "
                  "earlier, whatever the "
                  "program asks for (a process may be off the CPU for longer than real hardware ever is)")
      ->required();
}

void add_activation(CLI::App& app, Options& options, Action& chosen) {
  for (const bool on : {true, false}) {
    CLI::App* command =
        add_command(app, on ? "activate" : "deactivate",
                    on ? "Put uroce into every program of the system (ld.so.preload); for disposable images"
                       : "Take back what activate did",
                    chosen, [&, on] { return on ? activate(options.root) : deactivate(options.root); });
    command->add_flag("--system", options.system, "Really for the whole system")->required();
    command
        ->add_option("--root", options.root,
                     "Work on the system below this directory, such as an image being built")
        ->check(CLI::ExistingDirectory);
  }
}

int main(int argc, char** argv) {
  if (const auto words = words_to_run(argc, argv); !words.empty()) return run_command(words);

  CLI::App app{
      "uroce: RDMA over Converged Ethernet (RoCEv2) for unmodified RDMA programs, in user space, without a "
      "kernel module.",
      "uroce"};
  Options options;
  Action chosen;
  app.require_subcommand(1);
  app.set_version_flag("--version", "uroce " UROCE_VERSION);
  app.footer(
      "Example:\n"
      "  uroce run -- rdma link add ur0 type uroce netdev eth0\n"
      "  uroce run -- ibv_devinfo\n"
      "See uroce(1), uroced(8), uroce-provider(7).");

  add_command(
      app, "run",
      "Run a command and its children with uroce devices in sight: uroce run [--] COMMAND [ARGUMENTS]",
      chosen, [] {
        complain("run what? uroce run [--] COMMAND [ARGUMENTS]");
        return kUsage;
      });
  CLI::App* env = add_command(app, "env", "Print what puts a shell in the same state: eval \"$(uroce env)\"",
                              chosen, [&] { return print_environment(options.unset); });
  env->add_flag("--unset", options.unset, "Print what takes it back");
  CLI::App* status =
      add_command(app, "status", "Show the daemon of this network namespace, its devices and their users",
                  chosen, [&] { return show_status(options.json); });
  status->add_flag("--json", options.json, "For programs");
  add_command(app, "log", "Show the daemon's last messages", chosen, [] { return show_log(); });
  CLI::App* doctor = add_command(app, "doctor", "Look at what works here, what does not, why, and what to do",
                                 chosen, [&] { return show_doctor(options.json, options.program); });
  doctor->add_flag("--json", options.json, "For programs");
  doctor->add_option("PROGRAM", options.program, "Look at this program too: can uroce be loaded into it?");
  CLI::App* stop = add_command(app, "stop", "End the daemon of this network namespace, and its devices",
                               chosen, [&] { return stop_daemon(options.all); });
  stop->add_flag("--all", options.all, "In every network namespace");
  add_link_commands(app, options, chosen);
  add_activation(app, options, chosen);

  try {
    app.parse(argc, argv);
    return chosen();
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsage;
  }
}

}  // namespace
}  // namespace uroce::cli

int main(int argc, char** argv) {
  try {
    return uroce::cli::main(argc, argv);
  } catch (const std::exception& error) {
    uroce::cli::complain(error.what());
    return uroce::cli::kFailed;
  }
}
