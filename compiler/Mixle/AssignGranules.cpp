//===- AssignGranules.cpp - Factors, granules and blocks ------------------===//
//
// Granules follow from the graph alone, never from a plan: that is what makes
// sums the same under every plan (NUMERICS, B).
//
//===----------------------------------------------------------------------===//

#include "compiler/Mixle/Passes.h"
#include "compiler/Mixle/Factors.h"

namespace mlir::mixle {
#define GEN_PASS_DEF_ASSIGNGRANULES
#include "compiler/Mixle/Passes.h.inc"
} // namespace mlir::mixle

using namespace mlir;
using namespace mlir::mixle;

FactorNames mlir::mixle::propagateFactors(EntryOp entry) {
  FactorNames names;
  auto program = cast<ProgramOp>(entry->getParentOp());
  for (BlockArgument argument : entry.getArguments()) {
    auto type = cast<RankedTensorType>(argument.getType());
    SmallVector<StringRef> dims(type.getRank());
    if (FlatSymbolRefAttr of = argumentOf(entry, argument.getArgNumber()))
      if (auto parameter = program.lookupSymbol<ParameterOp>(of.getAttr()))
        for (auto [i, factor] : llvm::enumerate(parameter.getFactors()))
          if (i < dims.size())
            dims[i] = cast<StringAttr>(factor).getValue();
    names[argument] = dims;
  }
  for (Operation &op : entry.getBody().front()) {
    auto placed = dyn_cast<PlacementOpInterface>(op);
    if (!placed)
      continue;
    PlacementRule rule = placed.getPlacementRule();
    SmallVector<StringRef> factorNames(rule.factors.size());
    for (auto [operand, dims] : llvm::zip(op.getOperands(), rule.operands)) {
      auto it = names.find(operand);
      if (it == names.end())
        continue;
      for (auto [d, factor] : llvm::enumerate(dims))
        if (factor >= 0 && factorNames[factor].empty())
          factorNames[factor] = it->second[d];
    }
    for (auto [result, dims] : llvm::zip(op.getResults(), rule.results)) {
      SmallVector<StringRef> resultNames;
      for (int factor : dims)
        resultNames.push_back(factor >= 0 ? factorNames[factor] : StringRef());
      names[result] = resultNames;
    }
  }
  return names;
}

namespace {

struct AssignGranulesPass : mlir::mixle::impl::AssignGranulesBase<AssignGranulesPass> {
  void runOnOperation() override {
    completeDefaults();
    DictionaryAttr granules = getOperation().getGranules();
    for (EntryOp entry : getOperation().getOps<EntryOp>())
      if (failed(assign(entry, granules)))
        return signalPassFailure();
  }

  /// The size of the first parameter dimension named `factor`, or 0.
  int64_t factorSize(StringRef factor) {
    for (auto parameter : getOperation().getOps<ParameterOp>())
      for (auto [i, name] : llvm::enumerate(parameter.getFactors()))
        if (cast<StringAttr>(name).getValue() == factor)
          return cast<RankedTensorType>(parameter.getType()).getDimSize(i);
    return 0;
  }

  void completeDefaults() {
    ProgramOp program = getOperation();
    Builder builder(program.getContext());
    NamedAttrList granules(program.getGranules());
    auto set = [&](StringRef name, int64_t value) {
      if (!granules.get(name))
        granules.set(name, builder.getI64IntegerAttr(std::max<int64_t>(value, 1)));
    };
    auto value = [&](StringRef name) {
      return cast<IntegerAttr>(granules.get(name)).getInt();
    };
    int64_t sequence = static_cast<int64_t>(configNumber(program, "sequence", 0));
    int64_t block = 128;
    while (sequence && block > 1 && (sequence + block - 1) / block < 2)
      block /= 2;
    set("tokens", block);
    set("rows", 128);
    set("sequence", 1);
    int64_t heads = factorSize("heads");
    if (heads)
      set("heads", heads);
    int64_t groups = factorSize("kv_heads");
    if (groups)
      set("kv_heads", groups);
    int64_t tensor = heads ? value("heads") : groups ? value("kv_heads") : 8;
    if (int64_t ffn = factorSize("ffn"))
      set("ffn", std::min(ffn, tensor));
    if (int64_t vocabulary = factorSize("vocabulary"))
      set("vocabulary", std::min(vocabulary, std::max<int64_t>(tensor, 8)));
    if (int64_t components = factorSize("components"))
      set("components", std::min<int64_t>(components, 8));
    program.setGranulesAttr(granules.getDictionary(program.getContext()));
  }

  LogicalResult assign(EntryOp entry, DictionaryAttr granules) {
    Builder builder(entry.getContext());
    // Rules depend on granules (only granular contractions can be split), but
    // names do not, so one propagation serves.
    FactorNames names = propagateFactors(entry);
    auto count = [&](StringRef factor) -> int64_t {
      auto value = granules.getAs<IntegerAttr>(factor);
      return value ? value.getInt() : 0;
    };
    for (Operation &op : entry.getBody().front()) {
      if (auto dot = dyn_cast<DotGeneralOp>(op)) {
        for (auto [i, pair] : llvm::enumerate(
                 llvm::zip(dot.getLhsContract(), dot.getRhsContract()))) {
          auto [l, r] = pair;
          StringRef name = names[dot.getLhs()][l];
          if (name.empty())
            name = names[dot.getRhs()][r];
          if (name.empty() || !count(name))
            continue;
          int64_t size = dot.getLhs().getType().getDimSize(l);
          int64_t number = std::min(count(name), size);
          dot.setGranuleDim(static_cast<uint64_t>(i));
          dot.setGranules(number);
          dot.setGranuleSize((size + number - 1) / number);
          break;
        }
      } else if (auto sum = dyn_cast<RowSumExpOp>(op)) {
        StringRef name = names[sum.getInput()].back();
        int64_t size = sum.getInput().getType().getShape().back();
        int64_t number = name.empty() ? 0 : std::min(count(name), size);
        if (number) {
          sum.setGranules(number);
          sum.setGranuleSize((size + number - 1) / number);
        }
      } else if (auto attention = dyn_cast<AttentionOp>(op)) {
        attention.setKeyGranules(count("sequence"));
      } else if (auto grad = dyn_cast<AttentionGradOp>(op)) {
        grad.setKeyGranules(count("sequence"));
      } else if (auto accumulate = dyn_cast<AccumulateDotOp>(op)) {
        bool tokens = accumulate.getDataDims() == 2;
        accumulate.setBlock(count(tokens ? "tokens" : "rows"));
      }
    }
    return success();
  }
};

} // namespace
