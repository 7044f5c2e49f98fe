// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The function of the same name behind ours: libc's, or that of another preloaded library. All names are
// looked up when the stand-in is initialised; one that is called earlier, by another constructor, is looked
// up then.
#ifndef UROCE_PRELOAD_NEXT_H
#define UROCE_PRELOAD_NEXT_H

struct next_function {
  void* address;  // atomic
  const char* name;
};

// The address; NULL when nobody has such a function.
void* next_find(struct next_function* function);

// The next `name`, typed as the declaration of `name`.
#define NEXT(function)                                                                                     \
  ({                                                                                                       \
    static struct next_function next_entry_ __attribute__((section("uroce_next"), used)) = {0, #function}; \
    void* next_address_ = __atomic_load_n(&next_entry_.address, __ATOMIC_RELAXED);                         \
    if (__builtin_expect(next_address_ == 0, 0)) next_address_ = next_find(&next_entry_);                  \
    (__typeof__(&function))next_address_;                                                                  \
  })

#define EXPORT __attribute__((visibility("default")))

#endif
