//===- Files.cpp - Reading, mapping and atomic writing
//----------------------===//

#include "runtime/base/Files.h"

#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace mixle::runtime {

static constexpr size_t bufferSize = 1 << 20;

std::string describeFailure(const char *action, const std::string &path,
                            int code) {
  return std::string("cannot ") + action + " '" + path +
         "': " + std::strerror(code);
}

bool isRegularFile(const std::string &path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

namespace {
/// Closes a descriptor on every way out of a function.
struct Descriptor {
  int value;
  explicit Descriptor(int value) : value(value) {}
  Descriptor(const Descriptor &) = delete;
  ~Descriptor() {
    if (value >= 0)
      ::close(value);
  }
};

/// While it lives, a write past a file size limit or into a closed pipe
/// returns its errno to this thread and raises no signal that would end the
/// process: the two signals are blocked, and taken back before unblocking.
class WriteSignalsHeld {
public:
  WriteSignalsHeld() {
    sigemptyset(&signals);
    sigaddset(&signals, SIGXFSZ);
    sigaddset(&signals, SIGPIPE);
    sigset_t pending;
    sigpending(&pending);
    // What was pending before is another's to receive.
    for (int signal : {SIGXFSZ, SIGPIPE})
      if (sigismember(&pending, signal))
        sigdelset(&signals, signal);
    pthread_sigmask(SIG_BLOCK, &signals, &before);
  }
  WriteSignalsHeld(const WriteSignalsHeld &) = delete;
  ~WriteSignalsHeld() {
    int code = errno;
    timespec none = {};
    while (sigtimedwait(&signals, nullptr, &none) > 0)
      ;
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    errno = code;
  }

private:
  sigset_t signals, before;
};
} // namespace

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

Expected<std::string> readFile(const std::string &path, uint64_t limit) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.value < 0)
    return Status::error(describeFailure("read", path, errno));
  std::string content;
  struct stat info;
  if (::fstat(file.value, &info) == 0 && S_ISREG(info.st_mode)) {
    if (static_cast<uint64_t>(info.st_size) > limit)
      return Status::error("cannot read '" + path + "': it has " +
                           std::to_string(info.st_size) +
                           " bytes, expected at most " + std::to_string(limit));
    content.reserve(info.st_size);
  }
  char piece[1 << 16];
  while (true) {
    ssize_t count = ::read(file.value, piece, sizeof(piece));
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return Status::error(describeFailure("read", path, errno));
    if (count == 0)
      return content;
    if (static_cast<uint64_t>(count) > limit - content.size())
      return Status::error("cannot read '" + path +
                           "': it is longer than the " + std::to_string(limit) +
                           " bytes expected at most");
    content.append(piece, count);
  }
}

Expected<MappedFile> MappedFile::open(const std::string &path) {
  // Without O_NONBLOCK opening a pipe would wait for a writer.
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info;
  if (file.value < 0 || ::fstat(file.value, &info) != 0)
    return Status::error(describeFailure("read", path, errno));
  if (!S_ISREG(info.st_mode))
    return Status::error(
        "cannot read '" + path + "': it is " +
        (S_ISDIR(info.st_mode) ? "a directory" : "a device or pipe") +
        ", expected a regular file");
  MappedFile result;
  result.name = path;
  if (info.st_size > 0) {
    void *start =
        ::mmap(nullptr, info.st_size, PROT_READ, MAP_PRIVATE, file.value, 0);
    if (start == MAP_FAILED)
      return Status::error(describeFailure("map", path, errno));
    result.start = static_cast<const uint8_t *>(start);
    result.length = info.st_size;
  }
  return result;
}

MappedFile::~MappedFile() {
  if (start)
    ::munmap(const_cast<uint8_t *>(start), length);
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

const FileCalls &FileCalls::system() {
  static const FileCalls calls = {
      [](int descriptor, const void *data, size_t bytes) {
        return ::write(descriptor, data, bytes);
      },
      [](int descriptor) { return ::fsync(descriptor); },
      [](int descriptor) { return ::close(descriptor); },
      [](const char *from, const char *to) { return ::rename(from, to); }};
  return calls;
}

bool writeFully(int descriptor, const void *data, size_t bytes,
                const FileCalls &calls) {
  WriteSignalsHeld held;
  const char *next = static_cast<const char *>(data);
  while (bytes > 0) {
    // Linux writes at most 2 GiB at once; ask for less than that.
    size_t piece = bytes < (1u << 30) ? bytes : (1u << 30);
    ssize_t count = calls.write(descriptor, next, piece);
    if (count < 0 && errno == EINTR)
      continue;
    if (count == 0)
      errno = ENOSPC;
    if (count <= 0)
      return false;
    next += count;
    bytes -= count;
  }
  return true;
}

void AtomicFile::swap(AtomicFile &other) {
  std::swap(calls, other.calls);
  std::swap(descriptor, other.descriptor);
  std::swap(name, other.name);
  std::swap(target, other.target);
  std::swap(temporary, other.temporary);
  std::swap(buffer, other.buffer);
  std::swap(failure, other.failure);
}

Expected<AtomicFile> AtomicFile::create(const std::string &path,
                                        const FileCalls &calls) {
  if (path.empty())
    return Status::error("cannot write '': a file name is expected");
  AtomicFile file;
  file.calls = &calls;
  file.name = file.target = path;
  mode_t mode = 0;
  struct stat info;
  if (::stat(path.c_str(), &info) == 0) {
    if (S_ISDIR(info.st_mode))
      return Status::error(describeFailure("write", path, EISDIR));
    if (!S_ISREG(info.st_mode)) {
      file.descriptor = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
      if (file.descriptor < 0)
        return Status::error(describeFailure("write", path, errno));
      return file;
    }
    mode = info.st_mode & 07777;
    char resolved[PATH_MAX];
    if (::realpath(path.c_str(), resolved))
      file.target = resolved;
  }
  // Unique among processes by the id, among the files of one by the count.
  static std::atomic<unsigned> count{0};
  std::string temporary;
  do {
    temporary = file.target + ".tmp-" + std::to_string(::getpid()) + "-" +
                std::to_string(count++);
    file.descriptor = ::open(temporary.c_str(),
                             O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (file.descriptor < 0 && errno == EEXIST);
  if (file.descriptor < 0)
    return Status::error(describeFailure("write", path, errno));
  file.temporary = temporary;
  // Best effort: a file system without modes must not prevent the writing.
  if (mode != 0 && ::fchmod(file.descriptor, mode) != 0)
    errno = 0;
  return file;
}

Status AtomicFile::fail(const std::string &message) {
  discard();
  failure = Status::error(message);
  return failure;
}

Status AtomicFile::writeOut(const uint8_t *data, size_t bytes) {
  if (!writeFully(descriptor, data, bytes, *calls))
    return fail(describeFailure("write", name, errno));
  return Status::success();
}

Status AtomicFile::flush() {
  if (buffer.empty())
    return Status::success();
  std::vector<uint8_t> full;
  full.swap(buffer);
  Status status = writeOut(full.data(), full.size());
  if (status) {
    full.clear();
    buffer.swap(full); // keeps the capacity
  }
  return status;
}

Status AtomicFile::write(const void *data, size_t bytes) {
  if (!failure)
    return failure;
  if (descriptor < 0)
    return Status::error("cannot write '" + name + "': it is closed");
  const uint8_t *next = static_cast<const uint8_t *>(data);
  if (buffer.size() + bytes > bufferSize)
    MIXLE_RETURN_IF_ERROR(flush());
  if (bytes >= bufferSize)
    return writeOut(next, bytes);
  buffer.insert(buffer.end(), next, next + bytes);
  return Status::success();
}

Status AtomicFile::commit() {
  if (!failure)
    return failure;
  if (descriptor < 0)
    return Status::error("cannot write '" + name + "': it is closed");
  MIXLE_RETURN_IF_ERROR(flush());
  bool direct = temporary.empty();
  // A device or pipe need not know how to sync.
  if (calls->sync(descriptor) != 0 && !direct)
    return fail(describeFailure("write", name, errno));
  int closing = descriptor;
  descriptor = -1; // whatever close() returns, the descriptor is gone
  if (calls->close(closing) != 0)
    return fail(describeFailure("write", name, errno));
  if (direct)
    return Status::success();
  if (calls->rename(temporary.c_str(), target.c_str()) != 0)
    return fail(describeFailure("write", name, errno));
  temporary.clear();
  // The name itself is durable only with its directory. The file is complete
  // and visible by now, so a file system that cannot do this is no error.
  size_t slash = target.rfind('/');
  std::string directory =
      slash == std::string::npos ? "." : target.substr(0, slash + 1);
  Descriptor folder(
      ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.value >= 0)
    ::fsync(folder.value);
  return Status::success();
}

void AtomicFile::discard() {
  int code = errno;
  if (descriptor >= 0)
    ::close(descriptor);
  descriptor = -1;
  if (!temporary.empty())
    ::unlink(temporary.c_str());
  temporary.clear();
  buffer.clear();
  errno = code;
}

} // namespace mixle::runtime
