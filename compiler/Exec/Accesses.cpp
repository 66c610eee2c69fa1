//===- Accesses.cpp - What commands read and write ------------------------===//

#include "compiler/Exec/Passes.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace mlir::exec;

namespace {
/// Bit i: buffer i of a library function is written; read unless only written.
struct CallEffects {
  unsigned writes;
  unsigned readsToo; ///< of those written, which are also read
};

CallEffects effectsOf(StringRef function) {
  StringRef base = function;
  base.consume_back("_f32") || base.consume_back("_f64");
  constexpr unsigned b0 = 1, b1 = 2, b2 = 4, b3 = 8, b4 = 16, b5 = 32;
  return llvm::StringSwitch<CallEffects>(base)
      .Case("dot_tree", {b2, 0})
      .Case("accumulate_dot", {b0 | b4, b0 | b4})
      .Case("accumulate_rows", {b0 | b3, b0 | b3})
      .Case("accumulate_scatter", {b0 | b4, b0 | b4})
      .Cases({"embedding", "select_label"}, {b2, 0})
      .Case("combine_granules", {b1, 0})
      .Cases({"exact_sum", "exact_sum_squares", "count_labels", "advance"},
             {b0, b0})
      .Case("resolve", {b3, 0})
      .Case("round_exact", {b1, 0})
      .Case("clip_coefficient", {b1 | b2, 0})
      .Case("schedule", {b1 | b2 | b3, 0})
      .Case("decide_units", {b0 | b2 | b3, b0})
      .Cases({"attention", "grouped_attention"}, {b1 | b2 | b3, 0})
      .Cases({"attention_grad", "grouped_attention_grad"}, {b5, 0})
      .Cases({"initialize_parameter", "initialize_units"}, {b0, 0})
      .Case("mixture_features", {b3, 0})
      .Case("mixture_forms", {b5 | 64 | 128 | 256, 0})
      .Case("mixture_scores", {b5, b5})
      .Case("mixture_step", {128 | 256 | 512, 0})
      .Cases({"mixture_status", "flag_zero", "flag_positive", "flag_finite"}, {b1, 0})
      .Case("resolve_sum", {b2, 0})
      // What is not known is taken to read and write everything.
      .Default({~0u, ~0u});
}
} // namespace

SmallVector<Access> mlir::exec::accessesOf(Operation *command) {
  SmallVector<Access> accesses;
  auto add = [&](Attribute buffer, bool reads, bool writes) {
    accesses.push_back({cast<FlatSymbolRefAttr>(buffer), reads, writes});
  };
  if (auto call = dyn_cast<CallOp>(command)) {
    CallEffects effects = effectsOf(call.getFunction());
    for (auto [i, buffer] : llvm::enumerate(call.getBuffers())) {
      bool writes = effects.writes >> i & 1;
      add(buffer, !writes || (effects.readsToo >> i & 1), writes);
    }
  } else if (auto launch = dyn_cast<LaunchOp>(command)) {
    auto kernel = command->getParentOfType<ProgramOp>().lookupSymbol<KernelOp>(
        launch.getKernel());
    size_t inputs = kernel ? kernel.getArgumentTypes().size() : 0;
    for (auto [i, buffer] : llvm::enumerate(launch.getBuffers()))
      add(buffer, i < inputs, i >= inputs);
  } else if (auto collective = dyn_cast<CollectiveOp>(command)) {
    bool inPlace = collective.getBuffers().size() == 1;
    add(collective.getBuffers()[0], true, inPlace);
    if (!inPlace)
      add(collective.getBuffers()[1], false, true);
  } else if (auto send = dyn_cast<SendOp>(command)) {
    add(send.getBufferAttr(), true, false);
  } else if (auto recv = dyn_cast<RecvOp>(command)) {
    add(recv.getBufferAttr(), false, true);
  } else if (auto copy = dyn_cast<CopyOp>(command)) {
    add(copy.getFromAttr(), true, false);
    add(copy.getToAttr(), false, true);
  } else if (auto fill = dyn_cast<FillOp>(command)) {
    add(fill.getToAttr(), false, true);
  } else if (auto retry = dyn_cast<RetryOp>(command)) {
    add(retry.getFlagAttr(), true, false);
  } else if (auto commit = dyn_cast<CommitIfOp>(command)) {
    add(commit.getFlagAttr(), true, false);
  }
  return accesses;
}
