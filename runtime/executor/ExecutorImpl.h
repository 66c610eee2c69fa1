//===- ExecutorImpl.h - Inside the executor ---------------------*- C++ -*-===//

#ifndef MIXLE_RUNTIME_EXECUTOR_EXECUTORIMPL_H
#define MIXLE_RUNTIME_EXECUTOR_EXECUTORIMPL_H

#include "runtime/comm/TreeAllReduce.h"
#include "runtime/executor/Arena.h"
#include "runtime/executor/CodeModule.h"
#include "runtime/executor/Executor.h"
#include "runtime/executor/Functions.h"
#include "runtime/program/Scalars.h"

#include <algorithm>
#include <map>

namespace mixle::runtime {

/// A command with everything resolved that does not depend on rows.
struct PreparedCommand {
  const fb::CommandT *command = nullptr;
  CommandContext context;
  const LibraryFunction *function = nullptr;
  KernelFunction kernel = nullptr;
  Group *group = nullptr;
  int peer = -1; ///< world rank, of a send or recv
  bool usesRows = false;
  std::vector<PreparedCommand> body;
  // Storage for the arguments of one execution.
  std::vector<int64_t> scalars;
  std::vector<int64_t> elements;
  std::vector<void *> pointers;
  std::vector<Extent> touched;
  GranuleCut cut;
};

struct PreparedEntry {
  const fb::EntryT *entry = nullptr;
  std::vector<PreparedCommand> commands;
};

/// One run of an entry.
struct RunState {
  /// Indexed by buffer: where its rows begin; null for what is no input.
  std::vector<const char *> inputs;
  RowWindow window;
  /// In a schedule: which copy of buffers that have several.
  int64_t slot = 0;
};

/// How a list of commands ended.
enum class Outcome { Done, Retry, NotCommitted };

class RankExecutor::Impl {
public:
  Impl(std::shared_ptr<const LoadedProgram> program, Communicator &communicator)
      : loaded(std::move(program)), program(loaded->program),
        body(loaded->rankClass(stageOf(loaded->plan, communicator.rank()))),
        communicator(communicator) {}

  Status initialize(const ExecutorOptions &options);

  Expected<EntryResult> run(std::string_view entry, const EntryInputs &inputs,
                            const std::function<Status()> &reaccumulate);

  /// Storage of a buffer that is no input.
  char *storage(size_t buffer) const { return bases[buffer]; }
  BufferView viewOf(size_t buffer) const;
  /// The persistent buffer of a parameter's slot, or of a state's name where
  /// `parameter` is -1; -1 if there is none.
  int64_t findPersistent(int64_t parameter, std::string_view slot) const;
  Status forEachRangeOf(size_t index, std::string_view slot, bool ownedOnly,
                        const RangeCallback &callback) const;

  std::shared_ptr<const LoadedProgram> loaded;
  const fb::ProgramT &program;
  const fb::RankClassT &body;
  Communicator &communicator;
  RankContext rank;
  std::unique_ptr<Group> world;
  ExecutorCounters counts;

private:
  Status prepareCommands(const fb::EntryT &entry,
                         const std::vector<std::unique_ptr<fb::CommandT>> &list,
                         int64_t &index, std::vector<PreparedCommand> &out);
  /// The coordinate along pp, of which rankClass() takes any.
  static int64_t stageOf(const ParallelPlan &plan, int rank) {
    return rank / std::max<int64_t>(plan.cp, 1) % std::max<int64_t>(plan.pp, 1);
  }
  Status makeGroups();

  Expected<RunState> bindInputs(const fb::EntryT &entry,
                                const EntryInputs &inputs) const;
  Expected<Outcome> runCommands(std::vector<PreparedCommand> &commands,
                                RunState &state, std::string &reason);
  Status runLoop(PreparedCommand &command, RunState &state,
                 std::string &reason);
  Status runSchedule(PreparedCommand &command, RunState &state,
                     std::string &reason);
  /// Scalars, pointers and sizes of the command's arguments.
  Status evaluate(PreparedCommand &command, const RunState &state) const;
  Status execute(PreparedCommand &command, const RunState &state);
  Status executeCall(PreparedCommand &command);
  Status executeCollective(PreparedCommand &command);
  Status executeTransfer(PreparedCommand &command);
  /// Refuses to touch more bytes of argument `i` than it holds.
  Status expectBytes(const PreparedCommand &command, size_t i,
                     Extent bytes) const;

  std::shared_ptr<CodeModule> code;
  Arena persistent, scratch;
  std::vector<char *> bases;
  std::vector<PreparedEntry> entries;
  /// By a bit per axis, and the coordinates along pp that take part.
  using GroupKey = std::pair<unsigned, std::vector<int32_t>>;
  static GroupKey groupKey(const fb::CommandT &command);
  std::map<GroupKey, std::unique_ptr<Group>> groups;
  TreeScratch treeScratch;
};

} // namespace mixle::runtime

#endif // MIXLE_RUNTIME_EXECUTOR_EXECUTORIMPL_H
