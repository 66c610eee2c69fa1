//===- RowOps.cpp - Reductions and the ops that stand on them -------------===//
//
// The order of operations here is part of each op's meaning (MixleOps.td states
// it): other targets must follow it to give the same bits.
//
//===----------------------------------------------------------------------===//

#include "compiler/Codegen/Elementary.h"
#include "compiler/Codegen/KernelEmitter.h"
#include <limits>

using namespace mlir;
using namespace mlir::mixle;
using namespace mlir::mixle::codegen;

using FCmp = Ops::FCmp;
using ICmp = Ops::ICmp;

static RankedTensorType tensorOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}
static Type elementType(Value tensor) {
  return tensorOf(tensor).getElementType();
}
static constexpr double kInfinity = std::numeric_limits<double>::infinity();

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

Value KernelEmitter::combineTwo(Combine combine, Value x, Value y) {
  return combine == Combine::Sum ? ops.fadd(x, y) : ops.maximum(x, y);
}

SmallVector<Value> KernelEmitter::reduce(Level *level, bool outerLanes,
                                         int64_t extent, Value count,
                                         Type element,
                                         ArrayRef<Combine> combine, Step step) {
  at(level);
  SmallVector<Value> initial;
  for (Combine c : combine)
    initial.push_back(ops.numberOf(Ops::vectorOf(element),
                                   c == Combine::Sum ? 0.0 : -kInfinity));
  return outerLanes
             ? reduceColumns(level, extent, count, combine, initial, step)
             : reduceLanes(level, extent, count, combine, initial, step);
}

/// One element at a time would be slow; 16 at a time, each in its lane. Lanes
/// that have no element in the last iteration keep what they have.
SmallVector<Value> KernelEmitter::reduceLanes(Level *level, int64_t extent,
                                              Value count,
                                              ArrayRef<Combine> combine,
                                              ArrayRef<Value> initial,
                                              Step step) {
  unsigned term = space.addLoop(extent);
  loopStates.resize(space.size());
  Value end = count ? count : ops.i64(extent);
  Value whole = count ? ops.logicalAnd(count, ops.i64(-kLanes))
                      : ops.i64(extent / kLanes * kLanes);
  SmallVector<Value> sums(initial);
  auto run = [&](Value low, Value high, bool tail) {
    sums = loop(level, low, high, kLanes, sums,
                [&](Level *body, Value variable, ValueRange carried) {
                  loopStates[term] = {body, variable, /*lane=*/true, false};
                  if (tail)
                    body->mask = tailMask(body, variable, end);
                  SmallVector<Value> next =
                      step(body, Index::ofTerm(term), carried);
                  at(body);
                  for (auto [value, old] : llvm::zip(next, carried)) {
                    value = ops.toVector(value);
                    if (tail)
                      value = ops.select(body->mask, value, old);
                  }
                  return next;
                });
  };
  if (count || extent >= kLanes)
    run(ops.i64(0), whole, false);
  if (count || extent % kLanes)
    run(whole, end, true);
  at(level);
  SmallVector<Value> results;
  for (auto [sum, c] : llvm::zip(sums, combine))
    results.push_back(ops.halve(
        sum, [&, c = c](Value x, Value y) { return combineTwo(c, x, y); }));
  return results;
}

/// The results themselves are lanes: each has 16 accumulators of its own, kept
/// in memory.
SmallVector<Value> KernelEmitter::reduceColumns(Level *level, int64_t extent,
                                                Value count,
                                                ArrayRef<Combine> combine,
                                                ArrayRef<Value> initial,
                                                Step step) {
  unsigned term = space.addLoop(extent);
  loopStates.resize(space.size());
  auto pointer = LLVM::LLVMPointerType::get(b.getContext());
  Type vector = initial.front().getType();
  unsigned bytes = Ops::elementOf(initial.front()).getIntOrFloatBitWidth() / 8;
  SmallVector<Value> arrays;
  for (Value zero : initial) {
    Value number = ops.i64(kLanes);
    Value array;
    {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointAfterValue(number);
      array = LLVM::AllocaOp::create(b, ops.loc, pointer, vector, number);
    }
    for (int64_t lane = 0; lane < kLanes; ++lane)
      LLVM::StoreOp::create(b, ops.loc, zero,
                            ops.address(vector, array, ops.i64(lane)), bytes);
    arrays.push_back(array);
  }
  Value end = count ? count : ops.i64(extent);
  loop(level, ops.i64(0), end, 1, {},
       [&](Level *body, Value variable, ValueRange) {
         loopStates[term] = {body, variable, /*lane=*/false, false};
         Value lane = ops.logicalAnd(variable, ops.i64(kLanes - 1));
         SmallVector<Value> addresses, sums;
         for (Value array : arrays) {
           addresses.push_back(ops.address(vector, array, lane));
           sums.push_back(LLVM::LoadOp::create(b, ops.loc, vector,
                                               addresses.back(), bytes));
         }
         SmallVector<Value> next = step(body, Index::ofTerm(term), sums);
         at(body);
         for (auto [value, address] : llvm::zip(next, addresses))
           LLVM::StoreOp::create(b, ops.loc, ops.toVector(value), address,
                                 bytes);
         return SmallVector<Value>();
       });
  at(level);
  SmallVector<Value> results;
  for (auto [array, c] : llvm::zip(arrays, combine)) {
    SmallVector<Value> parts;
    for (int64_t lane = 0; lane < kLanes; ++lane)
      parts.push_back(LLVM::LoadOp::create(
          b, ops.loc, vector, ops.address(vector, array, ops.i64(lane)),
          bytes));
    for (int64_t width = kLanes / 2; width >= 1; width /= 2)
      for (int64_t lane = 0; lane < width; ++lane)
        parts[lane] = combineTwo(c, parts[lane], parts[lane + width]);
    results.push_back(parts[0]);
  }
  return results;
}

Value KernelEmitter::computeReduce(Level *level, ReduceOp op,
                                   ArrayRef<Index> indices,
                                   const Conditions &conditions) {
  auto input = tensorOf(op.getInput());
  SmallVector<int64_t> shape;
  int64_t extent = 1;
  for (int64_t d : op.getDimensions()) {
    shape.push_back(input.getDimSize(d));
    extent *= input.getDimSize(d);
  }
  bool lanes = hasLane(indices);
  if (lanes && llvm::is_contained(op.getDimensions(), input.getRank() - 1))
    nestWantsRowLoops[current] = true;
  Combine combine = op.getKind() == "sum" ? Combine::Sum : Combine::Max;
  return reduce(level, lanes, extent, Value(), input.getElementType(), combine,
                [&](Level *body, const Index &r, ValueRange carried) {
                  Indices parts = space.delinearize(r, shape), from;
                  size_t reduced = 0, kept = 0;
                  for (int64_t d = 0; d < input.getRank(); ++d)
                    from.push_back(llvm::is_contained(op.getDimensions(), d)
                                       ? parts[reduced++]
                                       : indices[kept++]);
                  Value x = evaluate(op.getInput(), from, conditions);
                  at(body);
                  return SmallVector<Value>{combineTwo(combine, carried[0], x)};
                })[0];
}

//===----------------------------------------------------------------------===//
// Norms
//===----------------------------------------------------------------------===//

/// The indices with another last one.
static Indices withColumn(ArrayRef<Index> row, const Index &column) {
  Indices indices(row);
  indices.push_back(column);
  return indices;
}

Value KernelEmitter::computeLayerNorm(Level *level, LayerNormOp op,
                                      unsigned result, ArrayRef<Index> indices,
                                      const Conditions &conditions) {
  Type element = elementType(op.getInput());
  int64_t columns = tensorOf(op.getInput()).getShape().back();
  if (result == 0) {
    ArrayRef<Index> row = indices.drop_back();
    Value x = evaluate(op.getInput(), indices, conditions);
    Value mean = evaluate(op.getMean(), row, conditions);
    Value rstd = evaluate(op.getRstd(), row, conditions);
    Value gain = evaluate(op.getGain(), indices.back(), conditions);
    Value bias = evaluate(op.getBias(), indices.back(), conditions);
    at(level);
    return ops.fma(ops.fmul(ops.fsub(x, mean), rstd), gain, bias);
  }
  bool lanes = hasLane(indices);
  nestWantsRowLoops[current] = nestWantsRowLoops[current] || lanes;
  Value mean;
  if (result == 2)
    mean = evaluate(op.getMean(), indices, conditions);
  Value sum = reduce(level, lanes, columns, Value(), element, Combine::Sum,
                     [&](Level *body, const Index &r, ValueRange carried) {
                       Value x = evaluate(op.getInput(),
                                          withColumn(indices, r), conditions);
                       at(body);
                       if (result == 1)
                         return SmallVector<Value>{ops.fadd(carried[0], x)};
                       Value d = ops.fsub(x, mean);
                       return SmallVector<Value>{ops.fma(d, d, carried[0])};
                     })[0];
  at(level);
  Value average = ops.fdiv(sum, ops.number(columns, sum));
  if (result == 1)
    return average;
  Value epsilon = ops.number(op.getEpsilon().convertToDouble(), sum);
  return ops.fdiv(ops.number(1.0, sum),
                  ops.sqrt(ops.fadd(average, epsilon)));
}

Value KernelEmitter::computeRmsNorm(Level *level, RmsNormOp op, unsigned result,
                                    ArrayRef<Index> indices,
                                    const Conditions &conditions) {
  Type element = elementType(op.getInput());
  int64_t columns = tensorOf(op.getInput()).getShape().back();
  if (result == 0) {
    Value x = evaluate(op.getInput(), indices, conditions);
    Value rstd = evaluate(op.getRstd(), indices.drop_back(), conditions);
    Value gain = evaluate(op.getGain(), indices.back(), conditions);
    at(level);
    return ops.fmul(ops.fmul(x, rstd), gain);
  }
  bool lanes = hasLane(indices);
  nestWantsRowLoops[current] = nestWantsRowLoops[current] || lanes;
  Value sum = reduce(level, lanes, columns, Value(), element, Combine::Sum,
                     [&](Level *body, const Index &r, ValueRange carried) {
                       Value x = evaluate(op.getInput(),
                                          withColumn(indices, r), conditions);
                       at(body);
                       return SmallVector<Value>{ops.fma(x, x, carried[0])};
                     })[0];
  at(level);
  Value average = ops.fdiv(sum, ops.number(columns, sum));
  Value epsilon = ops.number(op.getEpsilon().convertToDouble(), sum);
  return ops.fdiv(ops.number(1.0, sum),
                  ops.sqrt(ops.fadd(average, epsilon)));
}

Value KernelEmitter::computeLayerNormGrad(Level *level, LayerNormGradOp op,
                                          unsigned result,
                                          ArrayRef<Index> indices,
                                          const Conditions &conditions) {
  Type element = elementType(op.getInput());
  int64_t columns = tensorOf(op.getInput()).getShape().back();
  ArrayRef<Index> row = indices.drop_back();
  Value mean = evaluate(op.getMean(), row, conditions);
  Value rstd = evaluate(op.getRstd(), row, conditions);
  // dy, g and xhat of an element.
  struct Parts {
    Value cotangent, weighted, normal;
  };
  auto parts = [&](Level *where, ArrayRef<Index> at_) {
    Value x = evaluate(op.getInput(), at_, conditions);
    Value dy = evaluate(op.getCotangent(), at_, conditions);
    Value gain = result == 1
                     ? Value()
                     : evaluate(op.getGain(), at_.back(), conditions);
    at(where);
    return Parts{dy, gain ? ops.fmul(dy, gain) : Value(),
                 ops.fmul(ops.fsub(x, mean), rstd)};
  };
  if (result == 1) {
    Parts p = parts(level, indices);
    return ops.fmul(p.cotangent, p.normal);
  }
  bool lanes = hasLane(row);
  nestWantsRowLoops[current] = nestWantsRowLoops[current] || lanes;
  Level *rowLevel = levelOf(row, conditions);
  // Both sums are kept under the op's name on the row's level.
  auto key = std::make_tuple(
      static_cast<void *>(op.getOperation()), Indices(row), conditions);
  auto key2 = std::make_tuple(op.getInputCotangent().getAsOpaquePointer(),
                              Indices(row), conditions);
  if (!rowLevel->values.count(key)) {
    SmallVector<Value> sums =
        reduce(rowLevel, lanes, columns, Value(), element,
               {Combine::Sum, Combine::Sum},
               [&](Level *body, const Index &r, ValueRange carried) {
                 Parts p = parts(body, withColumn(row, r));
                 return SmallVector<Value>{
                     ops.fadd(carried[0], p.weighted),
                     ops.fma(p.weighted, p.normal, carried[1])};
               });
    at(rowLevel);
    Value d = ops.number(columns, sums[0]);
    rowLevel->values[key] = ops.fdiv(sums[0], d);
    rowLevel->values[key2] = ops.fdiv(sums[1], d);
  }
  Value first = rowLevel->values[key], second = rowLevel->values[key2];
  Parts p = parts(level, indices);
  Value inner = ops.fma(ops.fneg(p.normal), second, ops.fsub(p.weighted, first));
  return ops.fmul(rstd, inner);
}

Value KernelEmitter::computeRmsNormGrad(Level *level, RmsNormGradOp op,
                                        unsigned result,
                                        ArrayRef<Index> indices,
                                        const Conditions &conditions) {
  Type element = elementType(op.getInput());
  int64_t columns = tensorOf(op.getInput()).getShape().back();
  ArrayRef<Index> row = indices.drop_back();
  Value rstd = evaluate(op.getRstd(), row, conditions);
  struct Parts {
    Value cotangent, weighted, normal;
  };
  auto parts = [&](Level *where, ArrayRef<Index> at_) {
    Value x = evaluate(op.getInput(), at_, conditions);
    Value dy = evaluate(op.getCotangent(), at_, conditions);
    Value gain = result == 1
                     ? Value()
                     : evaluate(op.getGain(), at_.back(), conditions);
    at(where);
    return Parts{dy, gain ? ops.fmul(dy, gain) : Value(), ops.fmul(x, rstd)};
  };
  if (result == 1) {
    Parts p = parts(level, indices);
    return ops.fmul(p.cotangent, p.normal);
  }
  bool lanes = hasLane(row);
  nestWantsRowLoops[current] = nestWantsRowLoops[current] || lanes;
  Level *rowLevel = levelOf(row, conditions);
  auto key = std::make_tuple(
      static_cast<void *>(op.getOperation()), Indices(row), conditions);
  if (!rowLevel->values.count(key)) {
    Value sum = reduce(rowLevel, lanes, columns, Value(), element, Combine::Sum,
                       [&](Level *body, const Index &r, ValueRange carried) {
                         Parts p = parts(body, withColumn(row, r));
                         return SmallVector<Value>{
                             ops.fma(p.weighted, p.normal, carried[0])};
                       })[0];
    at(rowLevel);
    rowLevel->values[key] = ops.fdiv(sum, ops.number(columns, sum));
  }
  Value average = rowLevel->values[key];
  Parts p = parts(level, indices);
  return ops.fmul(rstd, ops.fma(ops.fneg(p.normal), average, p.weighted));
}

//===----------------------------------------------------------------------===//
// Softmax, over columns that may be one rank's part
//===----------------------------------------------------------------------===//

Value KernelEmitter::expShifted(Value x, Value maximum) {
  return throughF64(ops, ops.fsub(x, maximum), emitExp);
}

Value KernelEmitter::isValidColumn(Operation *op, const Index &column) {
  return ops.icmp(ICmp::slt, indexValue(column), validColumns(op));
}

Value KernelEmitter::computeRowMax(Level *level, RowMaxOp op,
                                   ArrayRef<Index> indices,
                                   const Conditions &conditions) {
  int64_t columns = tensorOf(op.getInput()).getShape().back();
  bool lanes = hasLane(indices);
  nestWantsRowLoops[current] = nestWantsRowLoops[current] || lanes;
  return reduce(level, lanes, columns, validColumns(op),
                elementType(op.getInput()), Combine::Max,
                [&](Level *body, const Index &r, ValueRange carried) {
                  Value x = evaluate(op.getInput(), withColumn(indices, r),
                                     conditions);
                  at(body);
                  return SmallVector<Value>{ops.maximum(carried[0], x)};
                })[0];
}

Value KernelEmitter::computeGranuleSums(Level *level, RowGranuleSumsOp op,
                                        ArrayRef<Index> indices,
                                        const Conditions &conditions) {
  int64_t size = op.getGranuleSize();
  Type element = elementType(op.getInput());
  ArrayRef<Index> row = indices.drop_back();
  bool lanes = hasLane(indices);
  nestWantsRowLoops[current] = nestWantsRowLoops[current] || lanes;
  Value maximum = evaluate(op.getMaximum(), row, conditions);
  Index start = indices.back() * size;
  // The granule's valid columns: all lanes of a reduction stop where they end;
  // where the granules are lanes, each has an end of its own.
  Value count;
  at(level);
  if (!lanes) {
    Value rest = ops.sub(validColumns(op), indexValue(start));
    count = ops.smax(ops.smin(rest, ops.i64(size)), ops.i64(0));
  }
  Value sum = reduce(
      level, lanes, size, count, element, Combine::Sum,
      [&](Level *body, const Index &r, ValueRange carried) {
        Index column = start + r;
        Conditions exists(conditions);
        if (lanes)
          exists.push_back({column, 0, tensorOf(op.getInput()).getShape().back()});
        Value x = evaluate(op.getInput(), withColumn(row, column), exists);
        at(body);
        Value next = ops.fadd(carried[0], expShifted(x, maximum));
        if (lanes)
          next = ops.select(isValidColumn(op, column), next, carried[0]);
        return SmallVector<Value>{next};
      })[0];
  at(level);
  Value none = ops.fcmp(FCmp::oeq, maximum, ops.number(-kInfinity, maximum));
  return ops.select(none, ops.number(0.0, sum), sum);
}

Value KernelEmitter::computeCrossEntropyGrad(Level *level,
                                             SoftmaxCrossEntropyGradOp op,
                                             ArrayRef<Index> indices,
                                             const Conditions &conditions) {
  ArrayRef<Index> row = indices.drop_back();
  Value x = evaluate(op.getLogits(), indices, conditions);
  Value label = evaluate(op.getLabels(), row, conditions);
  Value maximum = evaluate(op.getMaximum(), row, conditions);
  Value sum = evaluate(op.getSum(), row, conditions);
  Value cotangent = evaluate(op.getCotangent(), row, conditions);
  at(level);
  Value wide = ops.convert<LLVM::SExtOp>(label, b.getI64Type());
  Value column = indexValue(indices.back());
  Value zero = ops.number(0.0, x);
  Value p = ops.fdiv(expShifted(x, maximum), sum);
  Value hit = ops.icmp(ICmp::eq, column, ops.sub(wide, firstColumn(op)));
  p = ops.select(hit, ops.fsub(p, ops.number(1.0, p)), p);
  Value result = ops.fmul(p, cotangent);
  Value ignored =
      ops.icmp(ICmp::eq, label,
               ops.integer(static_cast<int64_t>(op.getIgnore()), label));
  result = ops.select(ignored, zero, result);
  return ops.select(isValidColumn(op, indices.back()), result, zero);
}

Value KernelEmitter::computeSoftmaxScale(Level *level, SoftmaxScaleOp op,
                                         ArrayRef<Index> indices,
                                         const Conditions &conditions) {
  ArrayRef<Index> row = indices.drop_back();
  Value x = evaluate(op.getInput(), indices, conditions);
  Value maximum = evaluate(op.getMaximum(), row, conditions);
  Value sum = evaluate(op.getSum(), row, conditions);
  Value scale = evaluate(op.getScale(), row, conditions);
  at(level);
  Value zero = ops.number(0.0, x);
  Value p = ops.fdiv(expShifted(x, maximum), sum);
  Value none = ops.fcmp(FCmp::oeq, maximum, ops.number(-kInfinity, maximum));
  Value result = ops.select(none, zero, ops.fmul(p, scale));
  return ops.select(isValidColumn(op, indices.back()), result, zero);
}
