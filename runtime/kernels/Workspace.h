//===- Workspace.h - Scratch memory of the kernels --------------*- C++ -*-===//
//
// One per rank thread, kept between steps: it grows in the first step and is
// only reused afterwards.
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_RUNTIME_KERNELS_WORKSPACE_H
#define MIXLE_RUNTIME_KERNELS_WORKSPACE_H

#include <cstddef>
#include <cstdint>
#include <new>

namespace mixle::runtime {

/// A growable buffer, aligned to 64 bytes. Not shared between threads.
class Workspace {
public:
  Workspace() = default;
  Workspace(const Workspace &) = delete;
  Workspace &operator=(const Workspace &) = delete;
  ~Workspace() { release(); }

  /// At least `bytes` bytes of unspecified content, valid until the next call.
  /// Throws std::bad_alloc.
  void *require(size_t bytes) {
    if (bytes > size) {
      release();
      memory = ::operator new(bytes, std::align_val_t(alignment));
      size = bytes;
    }
    return memory;
  }

  size_t capacity() const { return size; }

  static constexpr size_t alignment = 64;

  /// `bytes` rounded up to the alignment: for carving one reservation up.
  static constexpr size_t aligned(size_t bytes) {
    return (bytes + alignment - 1) / alignment * alignment;
  }

private:
  void release() {
    if (memory)
      ::operator delete(memory, std::align_val_t(alignment));
    memory = nullptr;
    size = 0;
  }

  void *memory = nullptr;
  size_t size = 0;
};

} // namespace mixle::runtime

#endif // MIXLE_RUNTIME_KERNELS_WORKSPACE_H
