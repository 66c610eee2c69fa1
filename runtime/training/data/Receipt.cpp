//===- Receipt.cpp - What a step says about itself
//--------------------------===//

#include "runtime/training/data/Receipt.h"

#include "runtime/base/Files.h"

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace mixle::runtime {

static bool isBlank(const std::string &text) {
  return text.find_first_not_of(" \t\n\r\v\f") == std::string::npos;
}

Status StepReceipt::validate() const {
  const std::pair<const char *, int64_t> counts[] = {
      {"step", step},
      {"local_examples", localExamples},
      {"local_tokens", localTokens},
      {"collective_bytes", collectiveBytes},
      {"global_examples_observed", globalExamplesObserved.value_or(0)},
      {"global_tokens_observed", globalTokensObserved.value_or(0)}};
  for (auto [field, value] : counts)
    if (value < 0)
      return Status::error(std::string(field) +
                           " must be an exact non-negative integer.");
  const std::pair<const char *, int64_t> sizes[] = {
      {"microbatches", microbatches},
      {"accumulation_steps", accumulationSteps},
      {"data_parallel_size", dataParallelSize}};
  for (auto [field, value] : sizes)
    if (value < 1)
      return Status::error(std::string(field) +
                           " must be an exact positive integer.");
  if (!std::isfinite(loss) || loss < 0)
    return Status::error("loss must be a finite non-negative real number.");
  if (isBlank(optimizer))
    return Status::error("optimizer must be a non-empty string.");
  if (isBlank(precision))
    return Status::error("precision must be a non-empty string.");
  if (!extra.is_object())
    return Status::error("extra must be a dictionary.");
  return Status::success();
}

Json StepReceipt::asJson() const {
  Json object = Json::object();
  object["step"] = step;
  object["loss"] = loss;
  object["local_examples"] = localExamples;
  object["local_tokens"] = localTokens;
  object["microbatches"] = microbatches;
  object["accumulation_steps"] = accumulationSteps;
  object["data_parallel_size"] = dataParallelSize;
  object["global_examples"] = globalExamples();
  object["global_tokens"] = globalTokens();
  object["optimizer"] = optimizer;
  object["precision"] = precision;
  object["collective_bytes"] = collectiveBytes;
  object["skipped"] = skipped;
  object["extra"] = extra;
  return object;
}

//===----------------------------------------------------------------------===//
// ReceiptWriter
//===----------------------------------------------------------------------===//

void ReceiptWriter::swap(ReceiptWriter &other) {
  std::swap(descriptor, other.descriptor);
  std::swap(name, other.name);
  std::swap(partial, other.partial);
  std::swap(count, other.count);
  std::swap(length, other.length);
  std::swap(failure, other.failure);
}

/// An empty file of this name that no other writer has open; -1 with errno set,
/// EWOULDBLOCK where one has. A dead run's lock died with it.
static int openLocked(const std::string &path) {
  while (true) {
    int descriptor =
        ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (descriptor < 0)
      return -1;
    struct stat held, named;
    // File systems without locks (ENOLCK, EOPNOTSUPP) cannot tell.
    bool taken = ::flock(descriptor, LOCK_EX | LOCK_NB) != 0 &&
                 errno == EWOULDBLOCK;
    bool same = !taken && ::fstat(descriptor, &held) == 0 &&
                ::stat(path.c_str(), &named) == 0 &&
                held.st_dev == named.st_dev && held.st_ino == named.st_ino;
    if (same && ::ftruncate(descriptor, 0) == 0)
      return descriptor;
    int code = taken ? EWOULDBLOCK : errno;
    ::close(descriptor);
    errno = code;
    // A run that ended meanwhile gave the file its final name: there is a new
    // one to make.
    if (taken || same)
      return -1;
  }
}

Expected<ReceiptWriter> ReceiptWriter::open(const std::string &path) {
  ReceiptWriter writer;
  writer.name = path;
  struct stat info;
  bool exists = ::stat(path.c_str(), &info) == 0;
  if (exists && S_ISDIR(info.st_mode))
    return Status::error(describeFailure("write", path, EISDIR));
  if (exists && !S_ISREG(info.st_mode)) {
    writer.descriptor = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  } else {
    writer.partial = path + ".partial";
    writer.descriptor = openLocked(writer.partial);
    if (writer.descriptor < 0 && errno == EWOULDBLOCK) {
      const std::string held = std::move(writer.partial);
      writer.partial.clear();
      return Status::error("cannot write '" + path + "': another run is writing '" +
                           held + "'; give each run a file of its own");
    }
  }
  if (writer.descriptor < 0)
    return Status::error(describeFailure("write", path, errno));
  return Expected<ReceiptWriter>(std::move(writer));
}

Status ReceiptWriter::fail(int code) {
  failure = Status::error(describeFailure("write", name, code));
  if (!partial.empty() && ::ftruncate(descriptor, length) != 0)
    failure = Status::error(failure.message() + " (the last line of '" +
                            partial + "' is not whole)");
  abandon();
  return failure;
}

Status ReceiptWriter::write(const StepReceipt &receipt) {
  MIXLE_RETURN_IF_ERROR(receipt.validate());
  return write(receipt.asJson());
}

Status ReceiptWriter::write(const Json &object) {
  if (!failure)
    return failure;
  if (descriptor < 0)
    return Status::error("cannot write '" + name + "': it is closed");
  std::string line =
      object.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  if (!writeFully(descriptor, line.data(), line.size()))
    return fail(errno);
  length += static_cast<int64_t>(line.size());
  ++count;
  return Status::success();
}

Status ReceiptWriter::close() {
  if (!failure)
    return failure;
  if (descriptor < 0)
    return Status::error("cannot write '" + name + "': it is closed");
  if (!partial.empty() && ::fsync(descriptor) != 0)
    return fail(errno);
  // Renamed while the lock is held, or another run could begin in between.
  if (!partial.empty() && ::rename(partial.c_str(), name.c_str()) != 0) {
    failure = Status::error(describeFailure("write", name, errno));
    abandon();
    return failure;
  }
  partial.clear();
  int closing = descriptor;
  descriptor = -1;
  if (::close(closing) != 0)
    failure = Status::error(describeFailure("write", name, errno));
  return failure;
}

void ReceiptWriter::abandon() {
  // Before the lock goes: the name may be another run's then.
  if (descriptor >= 0 && !partial.empty() && count == 0)
    ::unlink(partial.c_str());
  if (descriptor >= 0)
    ::close(descriptor);
  descriptor = -1;
  partial.clear();
}

} // namespace mixle::runtime
