//===- LowerOps.cpp - Library calls and collectives -----------------------===//

#include "compiler/Exec/Lowering.h"
#include "runtime/base/GranuleTree.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::exec;

/// Most partials that any rank holds when `perRank` of `granules` are its own.
static int64_t mostSubtrees(int64_t granules, int64_t perRank) {
  size_t most = 1;
  for (int64_t begin = 0; begin < granules; begin += perRank)
    most = std::max(most, ::mixle::runtime::maximalSubtrees(
                              begin, std::min(begin + perRank, granules), granules)
                              .size());
  return static_cast<int64_t>(most);
}

static int64_t product(ArrayRef<int64_t> sizes) {
  int64_t n = 1;
  for (int64_t s : sizes)
    n *= ShapedType::isDynamic(s) ? 1 : s;
  return n;
}

/// The commit of a step: only with counted labels and a finite norm.
void EntryLowering::guardCommit() {
  if (commitGuarded)
    return;
  commitGuarded = true;
  auto guard = [&](StringRef function, FlatSymbolRefAttr value, StringRef name,
                   StringRef reason) {
    FlatSymbolRefAttr flag = program.buffer(("flag." + name).str(), "accumulator",
                                            builder.getI32Type(), 1, 0);
    call(function, {value, flag}, {});
    CommitIfOp::create(builder, entry.getLoc(), flag,
                       builder.getStringAttr(reason));
  };
  guard("flag_positive",
        persistentFor("count", {}, {},
                      RankedTensorType::get({}, builder.getI64Type())),
        "tokens", "no_valid_token");
  // Only clipping has a norm.
  for (unsigned i = 0; i < entry.getNumResults(); ++i)
    if (mx::resultRole(entry, i) == "gradient_norm")
      guard("flag_finite",
            program.buffer("out.gradient_norm", "output", builder.getF64Type(), 1, 0),
            "norm", "non_finite_norm");
}

LogicalResult EntryLowering::lowerOp(Operation *op) {
  auto buf = [&](Value v) { return bufferOf(v); };
  auto attentionScalars = [&](auto o) {
    ArrayRef<int64_t> shape = cast<RankedTensorType>(o.getQkv().getType()).getShape();
    SmallVector<ScalarAttr> scalars = {program.rows(1), program.constant(shape[1])};
    if (o.getGrouped())
      scalars.append({program.constant(shape[2]), program.constant(shape[3] - 2)});
    else
      scalars.push_back(program.constant(shape[3]));
    scalars.append({program.constant(shape[4]), program.constant(o.getCausal()),
                    program.constant(o.getKeyGranules())});
    return scalars;
  };
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](mx::DotGeneralOp o) { return lowerDot(o); })
      .Case([&](mx::RowSumExpOp o) { return lowerRowSumExp(o); })
      .Case([&](dist::UpdateOp o) { return lowerUpdate(o); })
      .Case([&](mx::ReturnOp o) { return lowerReturn(o); })
      .Case([&](mx::ReshapeOp o) {
        bind(o.getResult(), buf(o.getInput()));
        return success();
      })
      .Case([&](mx::EmbeddingOp o) {
        auto [valid, offset] = owned(o.getTable(), 0);
        bind(o.getResult(), scratch(o.getType()));
        auto table = cast<RankedTensorType>(o.getTable().getType());
        call("embedding" + suffix, {buf(o.getTable()), buf(o.getIds()), buf(o.getResult())},
             {count(o.getIds().getType()),
              program.constant(product(table.getShape().drop_front())), offset,
              valid});
        return success();
      })
      .Case([&](mx::SelectLabelOp o) {
        auto type = cast<RankedTensorType>(o.getLogits().getType());
        auto [valid, offset] = owned(o.getLogits(), type.getRank() - 1);
        bind(o.getResult(), scratch(o.getType()));
        call("select_label" + suffix,
             {buf(o.getLogits()), buf(o.getLabels()), buf(o.getResult())},
             {count(o.getLabels().getType()),
              program.constant(type.getShape().back()), offset, valid});
        return success();
      })
      .Case([&](mx::AttentionOp o) {
        for (Value result : o->getResults())
          bind(result, scratch(result.getType()));
        call((o.getGrouped() ? "grouped_attention" : "attention") + suffix,
             {buf(o.getQkv()), buf(o.getResult()), buf(o.getReference()), buf(o.getNormalizer())},
             attentionScalars(o), {o.getScale().convertToDouble()});
        return success();
      })
      .Case([&](mx::AttentionGradOp o) {
        bind(o.getResult(), scratch(o.getType()));
        call((o.getGrouped() ? "grouped_attention_grad" : "attention_grad") + suffix,
             {buf(o.getQkv()), buf(o.getOutput()), buf(o.getReference()),
              buf(o.getNormalizer()), buf(o.getCotangent()), buf(o.getResult())},
             attentionScalars(o), {o.getScale().convertToDouble()});
        return success();
      })
      .Case([&](mx::AccumulateDotOp o) {
        auto lhs = cast<RankedTensorType>(o.getLhs().getType());
        auto rhs = cast<RankedTensorType>(o.getRhs().getType());
        int64_t dims = static_cast<int64_t>(o.getDataDims());
        UnitInfo &unit = unitOf(o.getOfAttr());
        FlatSymbolRefAttr acc = buf(o.getAccumulator());
        bind(o.getResult(), acc);
        ScalarAttr sequences = dims == 2 ? program.rows(1) : program.constant(1);
        ScalarAttr tokens = dims == 2 ? program.constant(lhs.getDimSize(1)) : program.rows(1);
        call("accumulate_dot" + suffix,
             {acc, buf(o.getLhs()), buf(o.getRhs()),
              program.unitsBuffer(), program.amaxBuffer()},
             {sequences, tokens, program.constant(o.getBlock()),
              program.constant(product(lhs.getShape().drop_front(dims))),
              program.constant(product(rhs.getShape().drop_front(dims))),
              program.constant(unit.index)});
        return success();
      })
      .Case([&](mx::AccumulateRowsOp o) {
        auto type = cast<RankedTensorType>(o.getInput().getType());
        int64_t dims = static_cast<int64_t>(o.getDataDims());
        UnitInfo &unit = unitOf(o.getOfAttr());
        FlatSymbolRefAttr acc = buf(o.getAccumulator());
        bind(o.getResult(), acc);
        call("accumulate_rows" + suffix,
             {acc, buf(o.getInput()),
              program.unitsBuffer(), program.amaxBuffer()},
             {countLeading(type, dims),
              program.constant(product(type.getShape().drop_front(dims))),
              program.constant(unit.index)});
        return success();
      })
      .Case([&](mx::AccumulateScatterOp o) {
        auto type = cast<RankedTensorType>(o.getUpdates().getType());
        auto [valid, offset] = owned(o.getAccumulator(), 0);
        UnitInfo &unit = unitOf(o.getOfAttr());
        FlatSymbolRefAttr acc = buf(o.getAccumulator());
        bind(o.getResult(), acc);
        int64_t dims = o.getIds().getType().getRank();
        call("accumulate_scatter" + suffix,
             {acc, buf(o.getIds()), buf(o.getUpdates()),
              program.unitsBuffer(), program.amaxBuffer()},
             {count(o.getIds().getType()),
              program.constant(product(type.getShape().drop_front(dims))), offset,
              valid, program.constant(unit.index)});
        return success();
      })
      .Case([&](mx::ExactSumOp o) {
        FlatSymbolRefAttr acc = buf(o.getAccumulator());
        bind(o.getResult(), acc);
        // A value that is whole along an axis over which the sum is completed
        // counts once: on the ranks at coordinate 0 of that axis.
        Value last = o.getResult();
        while (last.hasOneUse())
          if (auto next = dyn_cast<mx::ExactSumOp>(*last.user_begin()))
            last = next.getResult();
          else
            break;
        ScalarAttr n = count(o.getInput().getType());
        dist::Placement input = dist::placementOf(o.getInput());
        for (StringRef axis : dist::placementOf(last).partial) {
          if (axis == "pp")
            continue; // a stage sums what it owns
          bool sharded = axis == "dp_shard" && entry.getSymName() == "step";
          for (ArrayRef<StringRef> axes : input.dims)
            sharded |= llvm::is_contained(axes, axis);
          if (!sharded) {
            int64_t all = perRow(o.getInput().getType());
            n = program.scalar("owned", axis, all, all);
          }
        }
        call((o.getSquare() ? "exact_sum_squares" : "exact_sum") + suffix,
             {acc, buf(o.getInput())}, {n});
        return success();
      })
      .Case([&](mx::CountLabelsOp o) {
        FlatSymbolRefAttr acc = buf(o.getAccumulator());
        bind(o.getResult(), acc);
        call("count_labels", {acc, buf(o.getLabels())},
             {count(o.getLabels().getType()),
              program.constant(static_cast<int64_t>(o.getIgnore()))});
        return success();
      })
      .Case([&](mx::ResolveOp o) {
        bind(o.getResult(), scratch(o.getType()));
        call("resolve" + suffix,
             {buf(o.getAccumulator()),
              program.unitsBuffer(),
              buf(o.getCount()), buf(o.getResult())},
             {count(o.getType()), program.constant(unitOf(o.getOfAttr()).index)});
        return success();
      })
      .Case([&](mx::RoundExactOp o) {
        bind(o.getResult(), scratch(o.getType()));
        call("round_exact", {buf(o.getInput()), buf(o.getResult())}, {});
        return success();
      })
      .Case([&](mx::ClipCoefficientOp o) {
        bind(o.getCoefficient(), scratch(o.getCoefficient().getType()));
        bind(o.getNorm(), program.buffer("out.gradient_norm", "output",
                                         builder.getF64Type(), 1, 0));
        call("clip_coefficient",
             {buf(o.getSumOfSquares()), buf(o.getCoefficient()), buf(o.getNorm())},
             {}, {o.getMaxNorm().convertToDouble()});
        return success();
      })
      .Case([&](mx::ScheduleOp o) {
        for (Value result : o->getResults())
          bind(result, scratch(result.getType()));
        call("schedule",
             {buf(o.getStep()), buf(o.getRate()), buf(o.getCorrection1()), buf(o.getCorrection2())},
             {},
             {o.getLr().convertToDouble(), o.getBeta1().convertToDouble(),
              o.getBeta2().convertToDouble()},
             o.getSchedule());
        return success();
      })
      .Case<mx::MixtureFeaturesOp, mx::MixtureFormsOp, mx::CentredScoresOp,
            mx::ResolveSumOp, mx::MixtureStepOp, mx::MixtureStatusOp>(
          [&](Operation *o) { return lowerEstimation(o); })
      .Case<mx::LayerNormOp, mx::LayerNormGradOp, mx::RmsNormOp,
            mx::RmsNormGradOp, mx::RowMaxOp, mx::SoftmaxCrossEntropyGradOp,
            mx::SoftmaxScaleOp, mx::TransposeOp, mx::ConcatOp, mx::ReduceOp,
            mx::RotaryOp>([&](Operation *o) { return launch({o}); })
      .Default([&](Operation *o) {
        return o->emitError("has no lowering to the cpu backend");
      });
}

Value EntryLowering::transposed(Operation *where, Value value,
                                ArrayRef<int64_t> permutation) {
  if (llvm::equal(permutation, llvm::seq<int64_t>(0, permutation.size())))
    return value;
  OpBuilder b(where);
  auto op = mx::TransposeOp::create(b, value.getLoc(), value, permutation);
  dist::Placement from = dist::placementOf(value), to = from;
  for (auto [i, d] : llvm::enumerate(permutation))
    to.dims[i] = from.dims[d];
  dist::setPlacement(op.getResult(), to);
  bind(op.getResult(), scratch(op.getType()));
  (void)launch({op});
  return op.getResult();
}

LogicalResult EntryLowering::lowerDot(mx::DotGeneralOp op) {
  if (!op.getLhsBatch().empty())
    return op.emitError("has batch dimensions, which the cpu backend does not "
                        "execute; use mixle.attention or a contraction without them");
  auto freeDims = [](int64_t rank, ArrayRef<int64_t> contract) {
    SmallVector<int64_t> dims;
    for (int64_t d = 0; d < rank; ++d)
      if (!llvm::is_contained(contract, d))
        dims.push_back(d);
    return dims;
  };
  // lhs as [free..., contracted...].
  SmallVector<int64_t> lhsOrder =
      freeDims(op.getLhs().getType().getRank(), op.getLhsContract());
  llvm::append_range(lhsOrder, op.getLhsContract());
  Value lhs = transposed(op, op.getLhs(), lhsOrder);
  // rhs as [contracted..., free...], or the other way round as it lies.
  SmallVector<int64_t> free =
      freeDims(op.getRhs().getType().getRank(), op.getRhsContract());
  SmallVector<int64_t> transposedOrder(free), order(op.getRhsContract());
  llvm::append_range(transposedOrder, op.getRhsContract());
  llvm::append_range(order, free);
  bool transposeB =
      llvm::equal(transposedOrder, llvm::seq<int64_t>(0, transposedOrder.size()));
  Value rhs = transposeB ? op.getRhs() : transposed(op, op.getRhs(), order);

  auto lhsType = cast<RankedTensorType>(lhs.getType());
  int64_t contracted = static_cast<int64_t>(op.getLhsContract().size());
  ArrayRef<int64_t> k = lhsType.getShape().take_back(contracted);
  int64_t n = 1;
  for (int64_t d : free)
    n *= op.getRhs().getType().getDimSize(d);
  ScalarAttr m = countLeading(lhsType, lhsType.getRank() - contracted);

  int64_t segments = 1, length = product(k), inner = 1, granules = 1,
          granuleSize = std::max<int64_t>(length, 1);
  ScalarAttr valid = program.constant(length), first = program.constant(0),
             ownedGranules = program.constant(1);
  bool split = false;
  if (op.getGranuleDim()) {
    int64_t p = static_cast<int64_t>(*op.getGranuleDim());
    segments = product(k.take_front(p));
    length = k[p];
    inner = product(k.drop_front(p + 1));
    granules = static_cast<int64_t>(*op.getGranules());
    granuleSize = static_cast<int64_t>(*op.getGranuleSize());
    int64_t d = op.getLhsContract()[p];
    dist::Placement placement = dist::placementOf(op.getLhs());
    split = !placement.dims[d].empty();
    valid = owned(op.getLhs(), d).first;
    ownedGranules = program.constant(granules);
    if (split) {
      StringRef axis = placement.dims[d].front();
      int64_t perRank = length / granuleSize;
      first = program.scalar("offset", axis, perRank);
      ownedGranules = program.scalar("owned", axis, perRank, granules);
      trees[op.getResult()] = {granules, perRank};
    }
  }
  int64_t slots =
      split ? mostSubtrees(granules, length / granuleSize) : 1;
  bind(op.getResult(), scratch(op.getType(), slots));
  call("dot_tree" + suffix, {bufferOf(lhs), bufferOf(rhs), bufferOf(op.getResult())},
       {m, program.constant(n), program.constant(segments), valid,
        program.constant(length), program.constant(inner),
        program.constant(granules), program.constant(granuleSize), first,
        ownedGranules, program.constant(transposeB)});
  return success();
}

LogicalResult EntryLowering::lowerRowSumExp(mx::RowSumExpOp op) {
  auto type = cast<RankedTensorType>(op.getInput().getType());
  int64_t columns = type.getShape().back();
  int64_t granules = op.getGranules() ? static_cast<int64_t>(*op.getGranules()) : 1;
  int64_t size = op.getGranuleSize() ? static_cast<int64_t>(*op.getGranuleSize())
                                     : columns;
  dist::Placement placement = dist::placementOf(op.getInput());
  bool split = !placement.dims.back().empty();
  int64_t local = split ? columns / size : granules;
  OpBuilder b(op);
  auto sums = mx::RowGranuleSumsOp::create(
      b, op.getLoc(), op.getInput(), op.getMaximum(),
      b.getI64IntegerAttr(local), b.getI64IntegerAttr(size));
  // The combination below reads the sums, so they leave the kernel.
  bind(sums.getResult(), scratch(sums.getType()));
  if (failed(launch({sums})))
    return failure();
  StringRef axis = split ? placement.dims.back().front() : StringRef();
  int64_t slots = split ? mostSubtrees(granules, local) : 1;
  bind(op.getResult(), scratch(op.getType(), slots));
  if (split)
    trees[op.getResult()] = {granules, local};
  call("combine_granules" + suffix, {bufferOf(sums.getResult()), bufferOf(op.getResult())},
       {count(op.getType()), program.constant(local), program.constant(granules),
        split ? program.scalar("offset", axis, local) : program.constant(0),
        split ? program.scalar("owned", axis, local, granules)
              : program.constant(granules)});
  return success();
}

LogicalResult EntryLowering::lowerUpdate(dist::UpdateOp op) {
  if (op.getCollective() == "p2p")
    return lowerTransfer(op);
  FlatSymbolRefAttr from = bufferOf(op.getInput());
  FlatSymbolRefAttr to = from;
  StringRef merge = op.getMerge(), collective = op.getCollective();
  auto type = cast<RankedTensorType>(op.getInput().getType());
  Type element = type.getElementType();
  auto resultType = cast<RankedTensorType>(op.getResult().getType());
  SmallVector<Attribute> buffers, scalars;
  StringRef combine = "sum";
  int64_t shards = program.mesh.sizeOf("dp_shard");
  auto acc = dyn_cast<mx::AccType>(element);
  int64_t limbs = acc && acc.getValue().isF64() ? 2 : 1;
  if (collective == "all_gather") {
    // A flat part per rank becomes the local tensor; the end may be padding.
    int64_t part = perRow(type);
    to = program.buffer((entry.getSymName() + "." + Twine(nextScratch++)).str(),
                        "scratch", element, part * shards, 0);
    buffers = {from, to};
    scalars = {program.constant(part)};
  } else if (collective == "reduce_scatter") {
    int64_t part = perRow(resultType);
    to = program.buffer((entry.getSymName() + "." + Twine(nextScratch++)).str(),
                        "scratch", builder.getI64Type(), part * limbs, 0);
    element = builder.getI64Type();
    buffers = {from, to};
    scalars = {program.constant(part), program.constant(limbs)};
  } else if (merge == "tree") {
    auto [granules, perRank] = trees.lookup(op.getInput());
    if (!granules)
      return op.emitError("completes a value that no tree contraction made");
    // In fast mode the granules follow the plan: one each is a plain sum.
    if (op.getReductionOrder() == "any" && granules == program.mesh.sizeOf("tp")) {
      buffers = {from};
      scalars = {count(resultType)};
    } else {
      op.setReductionOrder("tree");
      to = scratch(resultType);
      collective = "tree_all_reduce";
      buffers = {from, to};
      scalars = {count(resultType), program.constant(granules), program.constant(perRank)};
    }
  } else {
    buffers = {from};
    ScalarAttr n = count(type);
    if (merge == "integer" && acc) {
      bool flat = op->hasAttr(dist::kFlatShardAttr);
      int64_t elements = perRow(type);
      if (!flat)
        elements = (elements + shards - 1) / shards * shards;
      n = program.constant(elements * limbs);
      element = builder.getI64Type();
    } else if (merge == "exact") {
      n = program.constant(program.limbCount);
      element = builder.getI64Type();
    } else if (merge == "max") {
      combine = "max";
    } else if (merge == "select") {
      combine = "bit_or";
      element = builder.getIntegerType(element.getIntOrFloatBitWidth(), false);
    }
    scalars = {n};
  }
  CollectiveOp::create(builder, op.getLoc(), builder.getStringAttr(collective),
                       builder.getArrayAttr(buffers), builder.getArrayAttr(scalars),
                       TypeAttr::get(element), builder.getStringAttr(combine),
                       op.getMeshAxesAttr(),
                       builder.getArrayAttr({program.update(op)}),
                       builder.getDenseI64ArrayAttr(program.participants(op)));
  bind(op.getResult(), to);
  return success();
}

LogicalResult EntryLowering::lowerReturn(mx::ReturnOp op) {
  SmallVector<Attribute> outputs;
  bool estimate = entry.getSymName() == "estimate";
  if (estimate)
    guardEstimate(op);
  for (unsigned i = 0; i < entry.getNumResults(); ++i) {
    StringRef role = mx::resultRole(entry, i);
    Value value = op.getOperand(i);
    auto type = cast<RankedTensorType>(value.getType());
    if (auto of = entry.getResultAttrOfType<FlatSymbolRefAttr>(i, mx::kOfAttr);
        of && !program.holds(of))
      continue;
    if (role == "parameter" || role == "state") {
      // Written in place by the op that made it; an M-step's results are first
      // judged as a whole.
      if (estimate) {
        CopyOp::create(builder, op.getLoc(), bufferOf(value),
                       destinations.lookup(value),
                       program.constant(perRow(type) *
                                        elementBytes(type.getElementType())));
        continue;
      }
      if (bufferOf(value) != destinations.lookup(value))
        return op.emitError("new state of ")
               << entry.getResultAttr(i, mx::kOfAttr) << " is made by no kernel";
      continue;
    }
    if (entry.getSymName() == "accumulate")
      continue;
    Type element = type.getElementType();
    FlatSymbolRefAttr from = bufferOf(value), to;
    if (isa<mx::ExactType>(element)) {
      role = "loss_total";
      to = program.buffer("out.loss_total", "output", builder.getF64Type(), 1, 0);
      call("round_exact", {from, to}, {});
    } else {
      bool rows = hasRows(type);
      to = program.buffer("out." + role.str(), "output", element,
                          rows ? 0 : perRow(type), rows ? perRow(type) : 0);
      if (from != to) {
        int64_t bytes = perRow(type) * elementBytes(element);
        CopyOp::create(builder, op.getLoc(), from, to,
                       rows ? program.rows(bytes) : program.constant(bytes));
      }
    }
    outputs.push_back(builder.getDictionaryAttr(
        {builder.getNamedAttr("role", builder.getStringAttr(role)),
         builder.getNamedAttr("buffer", to)}));
  }
  if (entry.getSymName() == "step")
    call("advance", {program.buffer("state.step", "state", builder.getI64Type(), 1, 0, {}, "step")}, {});
  target.setOutputsAttr(builder.getArrayAttr(outputs));
  return success();
}
