//===- FutexBarrier.h - A barrier whose waiters sleep -----------*- C++ -*-===//

#ifndef MIXLE_RUNTIME_COMM_FUTEXBARRIER_H
#define MIXLE_RUNTIME_COMM_FUTEXBARRIER_H

#include <atomic>
#include <cstdint>

namespace mixle::runtime {

/// A barrier for a fixed number of threads, in one 32-bit word: whether it
/// failed, the generation, and how many have arrived. All of it changes at
/// once, so a generation either completes for every member, or fails for every
/// member that arrived or is still to arrive; members never disagree about it.
class FutexBarrier {
public:
  enum class Result { complete, failed, timedOut };

  /// Arrives and sleeps until `members` threads have. `timeout` is in seconds,
  /// 0 for ever. After timedOut the barrier has failed. `spins` tries come
  /// before sleep.
  Result arriveAndWait(uint32_t members, double timeout, int spins);

  /// Wakes all waiters; the generation under way and all later ones fail.
  void fail();

private:
  static constexpr uint32_t failedBit = 1u << 31;
  static constexpr uint32_t generationStep = 1u << 16;
  static constexpr uint32_t generationMask = failedBit - generationStep;
  static constexpr uint32_t countMask = generationStep - 1;

  std::atomic<uint32_t> word{0};
};

} // namespace mixle::runtime

#endif // MIXLE_RUNTIME_COMM_FUTEXBARRIER_H
