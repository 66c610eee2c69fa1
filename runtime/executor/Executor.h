//===- Executor.h - Runs one rank of a program ------------------*- C++ -*-===//
//
// Executes the commands of a verified program on one rank, in their order. It
// makes no decisions: what depends on values (a rerun, a skipped step) is a
// `retry` or `commit_if` command.
//
// Messages of errors name entry, command, function and update; the launcher
// (ThreadRanks.h, Communicator::abort) puts the rank in front. After an error
// an executor is of no use.
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_RUNTIME_EXECUTOR_EXECUTOR_H
#define MIXLE_RUNTIME_EXECUTOR_EXECUTOR_H

#include "mixle/Status.h"
#include "runtime/comm/Communicator.h"
#include "runtime/program/ProgramFile.h"
#include "runtime/training/data/Digest.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

namespace mixle::runtime {

struct ExecutorOptions {
  /// Of `initialize_parameter`.
  uint64_t seed = 0;
};

/// What the caller gives to one run of an entry.
struct EntryInputs {
  /// Rows of this rank in this call; 0 is legal. Each iteration of an entry's
  /// loop takes ceil(rows / iterations) of them or fewer, which must not exceed
  /// the program's max_rows.
  int64_t rows = 0;
  /// By the binding's role: rows * per_row elements of the binding's type,
  /// aligned to its element. May be null when rows is 0.
  std::map<std::string, const void *, std::less<>> data;
};

/// How an entry ended.
struct EntryResult {
  /// False when a commit_if ended it: state is unchanged.
  bool committed = true;
  /// What that commit_if says: "no_valid_token", "non_finite_norm", ...
  std::string reason;
  /// More about it, where the command that set the flag knows (the first
  /// parameter whose gradient is not finite); may be empty.
  std::string detail;
  /// Whether a `retry` accumulated the window again.
  bool reran = false;
};

/// Elements in this rank's memory.
struct BufferView {
  void *data = nullptr;
  fb::DataType dtype = fb::DataType::F32;
  int64_t elements = 0;
};

/// `count` elements of a logical tensor, contiguous both in the tensor
/// (row-major, from `globalStart`) and in this rank's memory.
struct ElementRange {
  int64_t globalStart = 0;
  int64_t count = 0;
  void *data = nullptr;
};

struct ExecutorCounters {
  int64_t bytesSent = 0; ///< by this rank's communicator since it was made
  int64_t commandsRun = 0;
  int64_t reruns = 0;
};

class RankExecutor {
public:
  /// Prepares the program's body on rank communicator.rank() of the world:
  /// checks world size and CPU features, allocates the arenas (zeroed), loads
  /// the code (once per process) and resolves every kernel and function, makes
  /// the groups. All ranks call it together. The communicator must outlive the
  /// executor; one thread at a time uses it.
  static Expected<std::unique_ptr<RankExecutor>>
  create(std::shared_ptr<const LoadedProgram> program,
         Communicator &communicator, const ExecutorOptions &options = {});
  ~RankExecutor();

  /// Runs an entry. All ranks run the same entries in the same order, each with
  /// its own rows.
  ///
  /// `reaccumulate` serves a `retry` command whose flag is set: the executor
  /// runs the entry `reset`, then calls it; it must run the window's
  /// `accumulate` entries again with the same inputs (by run() on this
  /// executor); then the entry starts from its beginning. A flag that is set
  /// again is an error.
  Expected<EntryResult> run(std::string_view entry, const EntryInputs &inputs,
                            const std::function<Status()> &reaccumulate = {});

  /// The storage of an entry's output, as the last run() of that entry left it.
  /// `elements` counts those of max_rows for an output with
  /// rows.
  Expected<BufferView> output(std::string_view entry,
                              std::string_view role) const;
  /// Copies `elements` elements of it.
  Status readOutput(std::string_view entry, std::string_view role, void *to,
                    int64_t elements, fb::DataType dtype) const;

  const LoadedProgram &program() const;
  const fb::RankClassT &rankClass() const;
  const WorkerCoordinate &coordinate() const;
  Communicator &communicator() const;

  /// Number of parameters in the program.
  size_t numParameters() const;
  const fb::ParameterT &parameter(size_t index) const;
  /// Slots of a parameter's persistent buffers: "" for the parameter itself,
  /// then those of its optimizer state, in the order of the file.
  std::vector<std::string> slots(size_t index) const;
  /// This rank's part, padding included.
  Expected<BufferView> parameterBuffer(size_t index,
                                       std::string_view slot) const;
  /// A persistent state buffer of no parameter (the step counter, the units),
  /// by its slot, or by its name where the slot is empty. Equal on all ranks.
  Expected<BufferView> stateBuffer(std::string_view name) const;
  /// The names by which stateBuffer() finds them, in the order of the file.
  std::vector<std::string> stateNames() const;
  /// An accumulator of no parameter (the running loss and count of a window,
  /// the highest magnitudes), by its buffer's name.
  Expected<BufferView> accumulatorBuffer(std::string_view name) const;

  using RangeCallback = std::function<Status(const ElementRange &)>;
  /// The elements of a parameter's slot that this rank stands for: over all
  /// ranks, each logical element comes once and padding never. Of copies, the
  /// rank at coordinate 0 of the axes that replicate owns them.
  Status forEachOwnedRange(size_t index, std::string_view slot,
                           const RangeCallback &callback) const;
  /// The elements that this rank holds, copies included, padding never: what
  /// loading has to fill. Padding stays zero.
  Status forEachHeldRange(size_t index, std::string_view slot,
                          const RangeCallback &callback) const;

  /// This rank's share of the digest of parameters, optimizer state, step and
  /// units: the sum over all ranks is the digest of the state, the same under
  /// every plan.
  StateDigest localStateDigest() const;
  /// That sum; all ranks call it together.
  Expected<StateDigest> stateDigest(const CommandContext &context) const;

  ExecutorCounters counters() const;

private:
  class Impl;
  explicit RankExecutor(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

} // namespace mixle::runtime

#endif // MIXLE_RUNTIME_EXECUTOR_EXECUTOR_H
