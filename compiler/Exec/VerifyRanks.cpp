//===- VerifyRanks.cpp - Commands that are sound on every rank ------------===//

#include "compiler/Exec/Passes.h"
#include "llvm/ADT/StringSet.h"

namespace mlir::exec {
#define GEN_PASS_DEF_VERIFYRANKS
#include "compiler/Exec/Passes.h.inc"
} // namespace mlir::exec

using namespace mlir;
using namespace mlir::exec;

namespace {

struct VerifyRanksPass : mlir::exec::impl::VerifyRanksBase<VerifyRanksPass> {
  void runOnOperation() override {
    ProgramOp program = getOperation();
    llvm::StringSet<> carried;
    for (auto entry : program.getOps<EntryOp>())
      if (failed(verify(program, entry, carried)))
        return signalPassFailure();
    for (auto update : program.getOps<UpdateOp>())
      if (!carried.contains(update.getSymName())) {
        update.emitError("update '") << update.getSymName()
                                     << "' is carried out by no command";
        return signalPassFailure();
      }
  }

  LogicalResult verify(ProgramOp program, EntryOp entry,
                       llvm::StringSet<> &carried) {
    struct Live {
      BufferOp buffer;
      int64_t first, last;
    };
    llvm::StringMap<Live> live;
    llvm::StringSet<> written;
    int64_t time = 0;
    auto maxRows = program.getConfig().getAs<IntegerAttr>("max_rows");
    int64_t rows = maxRows ? maxRows.getInt() : 1;
    WalkResult result = entry.walk<WalkOrder::PreOrder>([&](Operation *op) {
      ++time;
      if (auto collective = dyn_cast<CollectiveOp>(op))
        for (Attribute update : collective.getUpdates()) {
          auto name = cast<FlatSymbolRefAttr>(update).getValue();
          if (!program.lookupSymbol<UpdateOp>(name)) {
            op->emitError("carries out the unknown update '") << name << "'";
            return WalkResult::interrupt();
          }
          carried.insert(name);
        }
      if (auto send = dyn_cast<SendOp>(op))
        carried.insert(send.getUpdate());
      if (auto recv = dyn_cast<RecvOp>(op))
        carried.insert(recv.getUpdate());
      for (const Access &access : accessesOf(op)) {
        StringRef name = access.buffer.getValue();
        auto buffer = program.lookupSymbol<BufferOp>(name);
        if (!buffer) {
          op->emitError("uses the unknown buffer '") << name << "'";
          return WalkResult::interrupt();
        }
        if (buffer.getKind() != "scratch")
          continue;
        if (access.reads && !written.contains(name)) {
          op->emitError("reads buffer '") << name << "' before anything wrote it";
          return WalkResult::interrupt();
        }
        if (access.writes)
          written.insert(name);
        auto [it, inserted] = live.try_emplace(name, Live{buffer, time, time});
        it->second.last = time;
      }
      return WalkResult::advance();
    });
    if (result.wasInterrupted())
      return failure();
    // No two that are alive together may overlap.
    SmallVector<Live *> all;
    for (auto &item : live)
      if (item.second.buffer.getOffset())
        all.push_back(&item.second);
    auto end = [&](BufferOp b) {
      return static_cast<int64_t>(*b.getOffset()) +
             (static_cast<int64_t>(b.getFixed()) +
              static_cast<int64_t>(b.getPerRow()) * rows) *
                 elementBytes(b.getElement()) * static_cast<int64_t>(b.getSlots());
    };
    llvm::sort(all, [](Live *a, Live *b) { return a->first < b->first; });
    for (size_t i = 0; i < all.size(); ++i)
      for (size_t j = i + 1; j < all.size() && all[j]->first <= all[i]->last; ++j) {
        BufferOp a = all[i]->buffer, b = all[j]->buffer;
        if (static_cast<int64_t>(*a.getOffset()) < end(b) &&
            static_cast<int64_t>(*b.getOffset()) < end(a))
          return entry.emitError("buffers '")
                 << a.getSymName() << "' and '" << b.getSymName()
                 << "' overlap in the arena while both are in use";
      }
    return success();
  }
};

} // namespace
