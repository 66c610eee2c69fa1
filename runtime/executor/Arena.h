//===- Arena.h - Zeroed memory of a rank ------------------------*- C++ -*-===//

#ifndef MIXLE_RUNTIME_EXECUTOR_ARENA_H
#define MIXLE_RUNTIME_EXECUTOR_ARENA_H

#include "mixle/Status.h"

#include <cerrno>
#include <cstring>
#include <string>
#include <sys/mman.h>

namespace mixle::runtime {

/// Pages of zeros, which the system provides as they are touched.
class Arena {
public:
  Arena() = default;
  Arena(const Arena &) = delete;
  Arena &operator=(const Arena &) = delete;
  ~Arena() {
    if (memory)
      munmap(memory, size);
  }

  /// `what` names it in the error.
  Status allocate(const char *what, int64_t bytes) {
    size = bytes > 0 ? static_cast<size_t>(bytes) : 1;
    void *pages = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED)
      return Status::error("cannot allocate " + std::to_string(bytes) +
                           " bytes of " + what +
                           " memory: " + std::strerror(errno));
    memory = static_cast<char *>(pages);
    // Advice only: large pages spare the TLB in large arenas.
    (void)madvise(memory, size, MADV_HUGEPAGE);
    return Status::success();
  }

  char *data() const { return memory; }

private:
  char *memory = nullptr;
  size_t size = 0;
};

} // namespace mixle::runtime

#endif // MIXLE_RUNTIME_EXECUTOR_ARENA_H
