// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Where C++ ends: no exception leaves a function that libibverbs calls. Running out of memory is ENOMEM, in
// the way the return type says it (verbs return a positive errno, or NULL with errno).
#pragma once

#include <cerrno>
#include <new>
#include <type_traits>

namespace uroce::verbs {

// NULL with errno, for verbs that return an object.
inline std::nullptr_t fail(int error) {
  errno = error;
  return nullptr;
}

template <auto function>
struct Boundary;

template <typename R, typename... A, R (*function)(A...)>
struct Boundary<function> {
  static R call(A... arguments) noexcept {
    try {
      return function(arguments...);
    } catch (const std::bad_alloc&) {
      return failed(ENOMEM);
    } catch (...) {
      return failed(EIO);
    }
  }

 private:
  static R failed([[maybe_unused]] int error) noexcept {
    if constexpr (std::is_pointer_v<R>) {
      return fail(error);
    } else if constexpr (std::is_integral_v<R>) {
      return static_cast<R>(error);
    }
  }
};

}  // namespace uroce::verbs
