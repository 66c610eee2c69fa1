//===- Files.h - Reading, mapping and atomic writing ------------*- C++ -*-===//
//
// Files as the runtime reads and writes them. Every message names the path and
// the operating system's cause. Outputs appear whole or not at all.
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_RUNTIME_BASE_FILES_H
#define MIXLE_RUNTIME_BASE_FILES_H

#include "mixle/Status.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <sys/types.h>
#include <vector>

namespace mixle::runtime {

/// Whether `path` names an existing regular file (links are followed).
bool isRegularFile(const std::string &path);

/// The whole content of a file (or pipe). Errors: it cannot be read, it is
/// longer than `limit` bytes.
Expected<std::string>
readFile(const std::string &path,
         uint64_t limit = std::numeric_limits<uint64_t>::max());

/// A regular file mapped for reading. Views into it are valid while it lives,
/// also after a move; another process that cuts the file short meanwhile
/// takes the mapped bytes away, so inputs must not be rewritten in place.
class MappedFile {
public:
  static Expected<MappedFile> open(const std::string &path);

  MappedFile() = default;
  MappedFile(MappedFile &&other) noexcept { swap(other); }
  MappedFile &operator=(MappedFile &&other) noexcept {
    swap(other);
    return *this;
  }
  ~MappedFile();

  /// Null when the file is empty. Page aligned.
  const uint8_t *data() const { return start; }
  /// Bytes.
  uint64_t size() const { return length; }
  const std::string &path() const { return name; }

private:
  void swap(MappedFile &other) {
    std::swap(start, other.start);
    std::swap(length, other.length);
    std::swap(name, other.name);
  }

  const uint8_t *start = nullptr;
  uint64_t length = 0;
  std::string name;
};

/// The operating system's calls that writing stands on, so that tests can make
/// any one of them fail. Each sets errno as the system's own does.
struct FileCalls {
  ssize_t (*write)(int descriptor, const void *data, size_t bytes);
  int (*sync)(int descriptor);
  int (*close)(int descriptor);
  int (*rename)(const char *from, const char *to);

  static const FileCalls &system();
};

/// A file that appears under its name only when it is complete. Bytes go to a
/// temporary name in the same directory; commit() flushes, syncs and renames.
/// Without a commit that succeeded the temporary is removed and whatever bore
/// the name before is untouched. A link's target is replaced, not the link. A
/// device or pipe, which no rename could keep whole, is written directly.
class AtomicFile {
public:
  static Expected<AtomicFile>
  create(const std::string &path, const FileCalls &calls = FileCalls::system());

  AtomicFile(AtomicFile &&other) noexcept { swap(other); }
  AtomicFile &operator=(AtomicFile &&other) noexcept {
    swap(other);
    return *this;
  }
  ~AtomicFile() { discard(); }

  /// Appends bytes (buffered). After an error the file is gone, and every
  /// later call returns that error.
  Status write(const void *data, size_t bytes);
  Status write(const std::string &text) {
    return write(text.data(), text.size());
  }
  /// Makes the file appear, complete and on disk.
  Status commit();
  /// Removes the temporary; what bore the name before stays.
  void discard();

  const std::string &path() const { return name; }
  /// Empty when the target is written directly.
  const std::string &temporaryPath() const { return temporary; }

private:
  AtomicFile() = default;
  void swap(AtomicFile &other);
  Status flush();
  Status writeOut(const uint8_t *data, size_t bytes);
  Status fail(const std::string &message);

  const FileCalls *calls = nullptr;
  int descriptor = -1;
  std::string name;      // as the user wrote it
  std::string target;    // with links resolved
  std::string temporary; // empty: `target` is written directly
  std::vector<uint8_t> buffer;
  Status failure;
};

/// Writes all of `bytes` to a descriptor; false with errno set otherwise. A
/// file size limit or a closed pipe is an errno here, never a signal.
bool writeFully(int descriptor, const void *data, size_t bytes,
                const FileCalls &calls = FileCalls::system());

/// "cannot write 'path': No space left on device".
std::string describeFailure(const char *action, const std::string &path,
                            int code);

} // namespace mixle::runtime

#endif // MIXLE_RUNTIME_BASE_FILES_H
