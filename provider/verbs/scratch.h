// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Room on the stack for entries of a list that is about to be filled. Not cleared first: clearing 32 entries
// for a request that has one costs as much as posting it.
#pragma once

#include <cstddef>
#include <type_traits>

namespace uroce::verbs {

template <typename T, size_t count>
class Scratch {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
  T* data() { return reinterpret_cast<T*>(bytes_); }

 private:
  alignas(T) std::byte bytes_[count * sizeof(T)];
};

}  // namespace uroce::verbs
