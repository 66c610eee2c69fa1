//===- PlanMemory.cpp - Offsets of buffers in their arenas ----------------===//

#include "compiler/Exec/Passes.h"
#include "mlir/IR/Builders.h"

namespace mlir::exec {
#define GEN_PASS_DEF_PLANMEMORY
#include "compiler/Exec/Passes.h.inc"
} // namespace mlir::exec

using namespace mlir;
using namespace mlir::exec;

namespace {

constexpr int64_t kAlignment = 64;

int64_t align(int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

/// A scratch buffer's first and last command of one entry.
struct Interval {
  BufferOp buffer;
  int64_t bytes = 0;
  int64_t first = INT64_MAX, last = -1;
  int64_t offset = 0;
  PhaseOp phase;                   ///< that used it last
  Operation *schedule = nullptr;   ///< where it lives from phase to phase
};

struct PlanMemoryPass : mlir::exec::impl::PlanMemoryBase<PlanMemoryPass> {
  void runOnOperation() override {
    ProgramOp program = getOperation();
    auto maxRows = program.getConfig().getAs<IntegerAttr>("max_rows");
    int64_t rows = maxRows ? maxRows.getInt() : 1;
    Builder builder(program.getContext());
    auto bytesOf = [&](BufferOp buffer) {
      int64_t elements = static_cast<int64_t>(buffer.getFixed()) +
                         static_cast<int64_t>(buffer.getPerRow()) * rows;
      return align(elements * elementBytes(buffer.getElement()));
    };

    int64_t persistent = 0;
    llvm::StringMap<Interval> intervals;
    for (auto buffer : program.getOps<BufferOp>()) {
      StringRef kind = buffer.getKind();
      if (kind == "input")
        continue;
      if (kind == "scratch") {
        Interval interval;
        interval.buffer = buffer;
        interval.bytes = bytesOf(buffer) * static_cast<int64_t>(buffer.getSlots());
        intervals[buffer.getSymName()] = interval;
        continue;
      }
      buffer.setOffset(persistent);
      persistent += bytesOf(buffer);
    }

    // Commands in order, through loops: an iteration uses nothing that another
    // has made, so lifetimes are those of the flat list. What lives from phase to
    // phase lives through the whole schedule.
    int64_t time = 0;
    for (auto entry : program.getOps<EntryOp>())
      entry.walk<WalkOrder::PreOrder>([&](Operation *op) {
        ++time;
        for (const Access &access : accessesOf(op)) {
          auto it = intervals.find(access.buffer.getValue());
          if (it == intervals.end())
            continue;
          Interval &interval = it->second;
          auto phase = op->getParentOfType<PhaseOp>();
          if (phase && interval.phase && interval.phase != phase)
            interval.schedule = phase->getParentOfType<ScheduleOp>();
          interval.phase = phase;
          interval.first = std::min(interval.first, time);
          interval.last = std::max(interval.last, time);
        }
      });
    time = 0;
    DenseMap<Operation *, std::pair<int64_t, int64_t>> spans;
    for (auto entry : program.getOps<EntryOp>())
      entry.walk<WalkOrder::PreOrder>([&](Operation *op) {
        ++time;
        for (Operation *parent = op; parent != entry.getOperation();
             parent = parent->getParentOp())
          if (isa<ScheduleOp>(parent)) {
            auto &span = spans.try_emplace(parent, time, time).first->second;
            span.second = time;
          }
      });
    for (auto &entry : intervals)
      if (entry.second.schedule) {
        auto [first, last] = spans.lookup(entry.second.schedule);
        entry.second.first = std::min(entry.second.first, first);
        entry.second.last = std::max(entry.second.last, last);
      }

    // Largest first, each at the lowest offset that is free for its lifetime.
    SmallVector<Interval *> order;
    for (auto &entry : intervals)
      order.push_back(&entry.second);
    llvm::sort(order, [](Interval *a, Interval *b) {
      if (a->bytes != b->bytes)
        return a->bytes > b->bytes;
      return a->buffer.getSymName() < b->buffer.getSymName();
    });
    int64_t scratch = 0;
    SmallVector<Interval *> placed;
    for (Interval *interval : order) {
      SmallVector<std::pair<int64_t, int64_t>> taken;
      for (Interval *other : placed)
        if (other->first <= interval->last && interval->first <= other->last)
          taken.push_back({other->offset, other->offset + other->bytes});
      llvm::sort(taken);
      int64_t offset = 0;
      for (auto [begin, end] : taken) {
        if (offset + interval->bytes <= begin)
          break;
        offset = std::max(offset, end);
      }
      interval->offset = offset;
      interval->buffer.setOffset(offset);
      scratch = std::max(scratch, offset + interval->bytes);
      placed.push_back(interval);
    }
    NamedAttrList config(program.getConfig());
    config.set("scratch_bytes", builder.getI64IntegerAttr(scratch));
    config.set("persistent_bytes", builder.getI64IntegerAttr(persistent));
    program.setConfigAttr(config.getDictionary(program.getContext()));
  }
};

} // namespace
