// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/runtime/fault_copy.h"

#include <pthread.h>
#include <signal.h>
#include <ucontext.h>

#include <cstring>

#if !defined(__x86_64__)
#error \
    "fault_copy.cc has x86-64 routines only; another architecture needs its own three and a fix-up of its program counter"
#endif

// Each routine lies between two labels; a fault in between continues at the third. Return value: 0 done, 1
// fault.
//
// uroce_copy(rdi destination, rsi source, rdx bytes): bytes until the destination is aligned, a string move
// for long bodies, then words, then bytes. The string move may store in any order within itself; the words
// behind it are ordinary stores and come after.
asm(R"(
  .pushsection .text
  .p2align 5
  .hidden uroce_copy
  .globl uroce_copy
  .type uroce_copy, @function
uroce_copy:
uroce_copy_begin:
  cmpq $8, %rdx
  jb 5f
1:
  testb $7, %dil
  jz 2f
  movb (%rsi), %al
  movb %al, (%rdi)
  incq %rsi
  incq %rdi
  decq %rdx
  jmp 1b
2:
  cmpq $256, %rdx
  jb 3f
  leaq -8(%rdx), %rcx
  andq $-8, %rcx
  subq %rcx, %rdx
  rep movsb
3:
  cmpq $8, %rdx
  jb 5f
4:
  movq (%rsi), %rax
  movq %rax, (%rdi)
  addq $8, %rsi
  addq $8, %rdi
  subq $8, %rdx
  cmpq $8, %rdx
  jae 4b
5:
  testq %rdx, %rdx
  jz 7f
6:
  movb (%rsi), %al
  movb %al, (%rdi)
  incq %rsi
  incq %rdi
  decq %rdx
  jnz 6b
7:
uroce_copy_end:
  xorl %eax, %eax
  ret
uroce_copy_fixup:
  movl $1, %eax
  ret
  .size uroce_copy, .-uroce_copy

  .hidden uroce_compare_swap
  .globl uroce_compare_swap
  .type uroce_compare_swap, @function
uroce_compare_swap:
  movq %rsi, %rax
uroce_compare_swap_begin:
  lock cmpxchgq %rdx, (%rdi)
uroce_compare_swap_end:
  movq %rax, (%rcx)
  xorl %eax, %eax
  ret
uroce_compare_swap_fixup:
  movl $1, %eax
  ret
  .size uroce_compare_swap, .-uroce_compare_swap

  .hidden uroce_fetch_add
  .globl uroce_fetch_add
  .type uroce_fetch_add, @function
uroce_fetch_add:
uroce_fetch_add_begin:
  lock xaddq %rsi, (%rdi)
uroce_fetch_add_end:
  movq %rsi, (%rdx)
  xorl %eax, %eax
  ret
uroce_fetch_add_fixup:
  movl $1, %eax
  ret
  .size uroce_fetch_add, .-uroce_fetch_add
  .hidden uroce_copy_begin, uroce_copy_end, uroce_copy_fixup
  .hidden uroce_compare_swap_begin, uroce_compare_swap_end, uroce_compare_swap_fixup
  .hidden uroce_fetch_add_begin, uroce_fetch_add_end, uroce_fetch_add_fixup
  .globl uroce_copy_begin, uroce_copy_end, uroce_copy_fixup
  .globl uroce_compare_swap_begin, uroce_compare_swap_end, uroce_compare_swap_fixup
  .globl uroce_fetch_add_begin, uroce_fetch_add_end, uroce_fetch_add_fixup
  .popsection
)");

extern "C" {
int uroce_copy(void* destination, const void* source, size_t bytes);
int uroce_compare_swap(uint64_t* word, uint64_t compare, uint64_t swap, uint64_t* original);
int uroce_fetch_add(uint64_t* word, uint64_t add, uint64_t* original);
extern const char uroce_copy_begin[], uroce_copy_end[], uroce_copy_fixup[];
extern const char uroce_compare_swap_begin[], uroce_compare_swap_end[], uroce_compare_swap_fixup[];
extern const char uroce_fetch_add_begin[], uroce_fetch_add_end[], uroce_fetch_add_fixup[];
}

namespace uroce::runtime {
namespace {

struct Routine {
  const char* begin;
  const char* end;
  const char* fixup;
};
const Routine kRoutines[] = {
    {uroce_copy_begin, uroce_copy_end, uroce_copy_fixup},
    {uroce_compare_swap_begin, uroce_compare_swap_end, uroce_compare_swap_fixup},
    {uroce_fetch_add_begin, uroce_fetch_add_end, uroce_fetch_add_fixup},
};

constexpr int kSignals[] = {SIGSEGV, SIGBUS};
struct sigaction previous[2];

void on_fault(int signal, siginfo_t* info, void* raw_context);

bool ours(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) && action.sa_sigaction == on_fault;
}

// Not our fault: behave as if the earlier handler had been called by the kernel.
void chain(int signal, siginfo_t* info, void* raw_context) {
  const struct sigaction& old = previous[signal == SIGSEGV ? 0 : 1];
  if (!(old.sa_flags & SA_SIGINFO) && (old.sa_handler == SIG_DFL || old.sa_handler == SIG_IGN)) {
    // The instruction faults again under the default action, with the core dump at the right place.
    struct sigaction fallback {};
    fallback.sa_handler = SIG_DFL;
    sigaction(signal, &fallback, nullptr);
    return;
  }
  sigset_t saved;
  pthread_sigmask(SIG_BLOCK, &old.sa_mask, &saved);
  if (old.sa_flags & SA_SIGINFO) {
    old.sa_sigaction(signal, info, raw_context);
  } else {
    old.sa_handler(signal);
  }
  pthread_sigmask(SIG_SETMASK, &saved, nullptr);
}

void on_fault(int signal, siginfo_t* info, void* raw_context) {
  auto* context = static_cast<ucontext_t*>(raw_context);
  const char* at = reinterpret_cast<const char*>(context->uc_mcontext.gregs[REG_RIP]);
  for (const Routine& routine : kRoutines) {
    if (at < routine.begin || at >= routine.end) continue;
    context->uc_mcontext.gregs[REG_RIP] = reinterpret_cast<greg_t>(routine.fixup);
    return;
  }
  chain(signal, info, raw_context);
}

}  // namespace

bool install_fault_handlers() {
  for (size_t i = 0; i < 2; ++i) {
    struct sigaction present;
    if (sigaction(kSignals[i], nullptr, &present) != 0) return false;
    if (ours(present)) continue;
    struct sigaction action {};
    action.sa_sigaction = on_fault;
    // An alternate stack, where the program has one, keeps working; the mask of the handler itself is the
    // program's business.
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
    sigemptyset(&action.sa_mask);
    previous[i] = present;
    if (sigaction(kSignals[i], &action, nullptr) != 0) return false;
  }
  return true;
}

bool fault_handlers_in_place() {
  for (int signal : kSignals) {
    struct sigaction present;
    if (sigaction(signal, nullptr, &present) != 0 || !ours(present)) return false;
  }
  return true;
}

void unblock_faults_of_this_thread() {
  sigset_t faults;
  sigemptyset(&faults);
  for (int signal : kSignals) sigaddset(&faults, signal);
  pthread_sigmask(SIG_UNBLOCK, &faults, nullptr);
}

bool copy_or_fault(void* destination, const void* source, size_t bytes) {
  return uroce_copy(destination, source, bytes) == 0;
}

bool compare_swap_or_fault(uint64_t* word, uint64_t compare, uint64_t swap, uint64_t& original) {
  return uroce_compare_swap(word, compare, swap, &original) == 0;
}

bool fetch_add_or_fault(uint64_t* word, uint64_t add, uint64_t& original) {
  return uroce_fetch_add(word, add, &original) == 0;
}

}  // namespace uroce::runtime
