//===- FutexBarrier.cpp - A barrier whose waiters sleep -------------------===//

#include "runtime/comm/FutexBarrier.h"
#include <chrono>
#include <climits>
#include <ctime>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace mixle::runtime {

namespace {

using Clock = std::chrono::steady_clock;

static_assert(sizeof(std::atomic<uint32_t>) == 4,
              "the kernel waits on the word itself");

void futexWake(std::atomic<uint32_t> &word) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

/// Sleeps while `word` is `value`, at most `limit` when there is one. May
/// return early; callers look at the word again.
void futexWait(std::atomic<uint32_t> &word, uint32_t value,
               const timespec *limit) {
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, limit, nullptr, 0);
}

void pauseBriefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

} // namespace

FutexBarrier::Result FutexBarrier::arriveAndWait(uint32_t members,
                                                 double timeout, int spins) {
  uint32_t before = word.load(std::memory_order_acquire);
  uint32_t after;
  do {
    if (before & failedBit)
      return Result::failed;
    bool last = (before & countMask) + 1 == members;
    after = last ? ((before & generationMask) + generationStep) & generationMask
                 : before + 1;
  } while (!word.compare_exchange_weak(before, after, std::memory_order_acq_rel,
                                       std::memory_order_acquire));
  uint32_t generation = before & generationMask;
  if ((after & generationMask) != generation) {
    futexWake(word);
    return Result::complete;
  }

  Clock::time_point deadline =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(
                         std::chrono::duration<double>(timeout));
  for (;;) {
    uint32_t now = word.load(std::memory_order_acquire);
    // The generation comes first: once complete, it is so for everyone.
    if ((now & generationMask) != generation)
      return Result::complete;
    if (now & failedBit)
      return Result::failed;
    if (spins > 0) {
      --spins;
      pauseBriefly();
      continue;
    }
    if (timeout <= 0) {
      futexWait(word, now, nullptr);
      continue;
    }
    auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(
                    deadline - Clock::now())
                    .count();
    if (left > 0) {
      timespec limit{static_cast<time_t>(left / 1000000000),
                     static_cast<long>(left % 1000000000)};
      futexWait(word, now, &limit);
    } else if (word.compare_exchange_strong(now, now | failedBit,
                                            std::memory_order_acq_rel)) {
      // Nobody can have completed it in between: the exchange saw `now`.
      futexWake(word);
      return Result::timedOut;
    }
  }
}

void FutexBarrier::fail() {
  word.fetch_or(failedBit, std::memory_order_acq_rel);
  futexWake(word);
}

} // namespace mixle::runtime
