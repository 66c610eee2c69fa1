//===- VerifyClasses.cpp - Rank classes that agree with each other --------===//
//
// Ranks of one class run one program, so their exchanges match by construction,
// and one rank can stand for each class: the check does not grow with the world.
//
//===----------------------------------------------------------------------===//

#include "compiler/Exec/Passes.h"
#include "llvm/ADT/MapVector.h"

#include <deque>

namespace mlir::exec {
#define GEN_PASS_DEF_VERIFYCLASSES
#include "compiler/Exec/Passes.h.inc"
} // namespace mlir::exec

using namespace mlir;
using namespace mlir::exec;

namespace {

/// A command that waits for others or is waited for.
struct Event {
  Operation *op;
  int64_t index;      ///< of the command in its entry
  int64_t microbatch; ///< -1 outside schedules
};

/// One rank of a class.
struct Process {
  int64_t stage;
  SmallVector<Event> events;
  size_t at = 0;
  bool done() const { return at == events.size(); }
  const Event &next() const { return events[at]; }
};

bool goesOverPp(CollectiveOp op) {
  return llvm::is_contained(op.getAxes().getAsValueRange<StringAttr>(), "pp");
}

void collect(Block &block, int64_t microbatch, int64_t &index,
             SmallVectorImpl<Event> &events) {
  for (Operation &op : block) {
    int64_t own = index++;
    if (auto schedule = dyn_cast<ScheduleOp>(op)) {
      SmallVector<std::pair<Block *, int64_t>> phases;
      for (Operation &phase : schedule.getBody().front()) {
        phases.push_back({&cast<PhaseOp>(phase).getBody().front(), index});
        // Commands are numbered in the order in which they are written.
        phase.walk([&](Operation *) { ++index; });
      }
      for (size_t i = 0; i < schedule.getRuns().size(); i += 3) {
        auto [body, first] = phases[schedule.getRuns()[i]];
        int64_t inner = first + 1;
        collect(*body, schedule.getRuns()[i + 1], inner, events);
      }
      continue;
    }
    if (auto loop = dyn_cast<LoopOp>(op)) {
      collect(loop.getBody().front(), microbatch, index, events);
      continue;
    }
    auto collective = dyn_cast<CollectiveOp>(op);
    if (isa<SendOp, RecvOp>(op) || (collective && goesOverPp(collective)))
      events.push_back({&op, own, microbatch});
  }
}

StringRef updateOf(Operation *op) {
  if (auto send = dyn_cast<SendOp>(op))
    return send.getUpdate();
  if (auto recv = dyn_cast<RecvOp>(op))
    return recv.getUpdate();
  return cast<FlatSymbolRefAttr>(cast<CollectiveOp>(op).getUpdates()[0]).getValue();
}

std::string describe(const Process &process) {
  if (process.done())
    return ("stage " + Twine(process.stage) + " has ended").str();
  const Event &event = process.next();
  std::string text = ("stage " + Twine(process.stage) + " waits in command " +
                      Twine(event.index) + " (" +
                      event.op->getName().stripDialect() + " of '" +
                      updateOf(event.op) + "'")
                         .str();
  if (event.microbatch >= 0)
    text += (", microbatch " + Twine(event.microbatch)).str();
  return text + ")";
}

struct VerifyClassesPass
    : mlir::exec::impl::VerifyClassesBase<VerifyClassesPass> {
  void runOnOperation() override {
    SmallVector<ProgramOp> classes;
    for (auto program : getOperation().getOps<ProgramOp>())
      if (program.getConfig().getAs<IntegerAttr>("stage"))
        classes.push_back(program);
    llvm::MapVector<StringRef, SmallVector<Process>> entries;
    for (ProgramOp program : classes)
      for (auto entry : program.getOps<EntryOp>()) {
        Process process;
        process.stage =
            program.getConfig().getAs<IntegerAttr>("stage").getInt();
        int64_t index = 0;
        collect(entry.getBody().front(), -1, index, process.events);
        entries[entry.getSymName()].push_back(std::move(process));
      }
    for (auto &[name, processes] : entries)
      if (failed(run(name, processes)))
        return signalPassFailure();
  }

  using Channel = std::tuple<int64_t, int64_t, StringRef>; // from, to, update
  std::map<Channel, std::deque<Event>> channels;

  static bool sameMessage(const Event &sent, const Event &received) {
    auto send = cast<SendOp>(sent.op);
    auto recv = cast<RecvOp>(received.op);
    return sent.microbatch == received.microbatch &&
           send.getElements() == recv.getElements() &&
           send.getElement() == recv.getElement();
  }

  static bool sameCollective(const Event &a, const Event &b) {
    auto x = dyn_cast<CollectiveOp>(a.op), y = dyn_cast<CollectiveOp>(b.op);
    return x && y && a.microbatch == b.microbatch &&
           x.getCollective() == y.getCollective() &&
           x.getScalars() == y.getScalars() && x.getElement() == y.getElement() &&
           x.getCombine() == y.getCombine() && x.getAxes() == y.getAxes() &&
           x.getStages() == y.getStages() && x.getUpdates() == y.getUpdates();
  }

  LogicalResult run(StringRef entry, SmallVectorImpl<Process> &processes) {
    channels.clear();
    bool moved = true;
    while (moved) {
      moved = false;
      for (Process &process : processes)
        while (!process.done()) {
          bool stepped = false;
          if (failed(step(entry, process, processes, stepped)))
            return failure();
          if (!stepped)
            break;
          moved = true;
        }
    }
    std::string waiting;
    for (const Process &process : processes)
      if (!process.done())
        waiting += (waiting.empty() ? "" : "; ") + describe(process);
    if (!waiting.empty())
      return getOperation().emitError("entry '")
             << entry << "' never ends: " << waiting;
    for (auto &[channel, messages] : channels)
      if (!messages.empty())
        return messages.front().op->emitError("entry '")
               << entry << "': stage " << std::get<0>(channel) << " sends '"
               << std::get<2>(channel) << "' to stage " << std::get<1>(channel)
               << ", which never receives it";
    return success();
  }

  LogicalResult step(StringRef entry, Process &process,
                     SmallVectorImpl<Process> &processes, bool &stepped) {
    const Event &event = process.next();
    if (auto send = dyn_cast<SendOp>(event.op)) {
      channels[{process.stage, static_cast<int64_t>(send.getStage()),
                send.getUpdate()}]
          .push_back(event);
      ++process.at;
      stepped = true;
      return success();
    }
    if (auto recv = dyn_cast<RecvOp>(event.op)) {
      auto &messages = channels[{static_cast<int64_t>(recv.getStage()),
                                 process.stage, recv.getUpdate()}];
      if (messages.empty())
        return success();
      if (!sameMessage(messages.front(), event))
        return recv.emitError("entry '")
               << entry << "': stage " << process.stage << " receives '"
               << recv.getUpdate() << "' from stage " << recv.getStage()
               << " in another size, type or order than it is sent";
      messages.pop_front();
      ++process.at;
      stepped = true;
      return success();
    }
    auto collective = cast<CollectiveOp>(event.op);
    SmallVector<Process *> members;
    for (Process &other : processes)
      if (collective.getStages().empty() ||
          llvm::is_contained(collective.getStages(), other.stage))
        members.push_back(&other);
    if (!llvm::is_contained(members, &process))
      return collective.emitError("entry '")
             << entry << "': stage " << process.stage << " takes part in '"
             << updateOf(event.op) << "', which is another stages'";
    for (Process *member : members) {
      if (member->done() || !isa<CollectiveOp>(member->next().op))
        return success(); // it may still come
      if (!sameCollective(event, member->next()))
        return collective.emitError("entry '")
               << entry << "': stages do not exchange the same: "
               << describe(process) << ", " << describe(*member);
    }
    for (Process *member : members)
      ++member->at;
    stepped = true;
    return success();
  }
};

} // namespace
