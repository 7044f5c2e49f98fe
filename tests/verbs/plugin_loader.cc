// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// plugin_loader LIBIBVERBS PLUGIN: loads the one, then the other, as libibverbs does with its providers, and
// says what came of it.
#include <dlfcn.h>

#include <cstdio>

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  void* const library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr || dlopen(argv[2], RTLD_NOW) == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  const auto registered = reinterpret_cast<const char* (*)()>(dlsym(library, "fake_registered"));
  if (registered == nullptr) return 1;
  std::fflush(stderr);
  const char* const name = registered();
  std::printf(name != nullptr ? "registered: %s\n" : "not registered\n", name);
  return 0;
}
