//===- Memory.cpp - Indices, loads and stores of a kernel -----------------===//

#include "compiler/Codegen/KernelEmitter.h"

using namespace mlir;
using namespace mlir::mixle;
using namespace mlir::mixle::codegen;

//===----------------------------------------------------------------------===//
// Lanes
//===----------------------------------------------------------------------===//

void KernelEmitter::collectLanes(const Index &index,
                                 SmallVectorImpl<unsigned> &lanes) {
  SmallVector<unsigned> loops;
  space.collectLoops(index, loops);
  for (unsigned term : loops)
    if (loopStates[term].lane)
      lanes.push_back(term);
}

bool KernelEmitter::hasLane(const Index &index) {
  SmallVector<unsigned> lanes;
  collectLanes(index, lanes);
  return !lanes.empty();
}

bool KernelEmitter::hasLane(ArrayRef<Index> indices) {
  return llvm::any_of(indices, [&](const Index &i) { return hasLane(i); });
}

Value KernelEmitter::laneMask(const Index &index) {
  SmallVector<unsigned> lanes;
  collectLanes(index, lanes);
  return lanes.empty() ? Value() : loopStates[lanes.front()].level->mask;
}

std::optional<int64_t> KernelEmitter::laneStep(const Index &index) {
  int64_t step = 0;
  for (auto [term, coefficient] : index.terms) {
    if (space[term].kind != Term::Loop) {
      if (hasLane(Index::ofTerm(term)))
        return std::nullopt;
    } else if (loopStates[term].lane && !loopStates[term].fusedAway) {
      step += coefficient;
    }
  }
  return step;
}

//===----------------------------------------------------------------------===//
// Values of indices
//===----------------------------------------------------------------------===//

void KernelEmitter::noteUse(const Index &index) {
  nestUses[current].push_back(index);
  for (auto [term, coefficient] : index.terms)
    if (space[term].kind != Term::Loop)
      noteUse(space[term].operand);
}

Value KernelEmitter::position(const Index &index) {
  if (index.terms.empty())
    return ops.i64(index.constant);
  Level *level = levelOf(index);
  auto known = level->positions.find(index);
  if (known != level->positions.end())
    return known->second;
  // What outer levels know is added there.
  Index outer, inner;
  outer.constant = index.constant;
  for (auto [term, coefficient] : index.terms) {
    Index one = Index::ofTerm(term);
    (levelOf(one) == level ? inner : outer).terms.push_back({term, coefficient});
  }
  Value sum;
  if (!outer.terms.empty() || outer.constant)
    sum = position(outer);
  SmallVector<std::pair<Value, int64_t>> parts;
  for (auto [term, coefficient] : inner.terms) {
    const Term &t = space[term];
    if (t.kind == Term::Loop) {
      // A fused loop's variable counts the loops before it as well.
      if (!loopStates[term].fusedAway)
        parts.push_back({loopStates[term].variable, coefficient});
      continue;
    }
    Value operand = position(t.operand);
    Value part;
    on(level, [&] {
      Value divisor = ops.i64(t.divisor);
      part = t.kind == Term::Quotient ? ops.udiv(operand, divisor)
                                      : ops.urem(operand, divisor);
    });
    parts.push_back({part, coefficient});
  }
  on(level, [&] {
    for (auto [value, coefficient] : parts) {
      Value scaled =
          coefficient == 1 ? value : ops.mul(value, ops.i64(coefficient));
      sum = sum ? ops.add(sum, scaled) : scaled;
    }
  });
  return level->positions[index] = sum;
}

Value KernelEmitter::lanePositions(const Index &index) {
  if (std::optional<int64_t> step = laneStep(index)) {
    Value first = position(index);
    return ops.add(first, ops.iota(b.getI64Type(), *step));
  }
  Value sum = ops.splat(ops.i64(index.constant));
  for (auto [term, coefficient] : index.terms) {
    const Term &t = space[term];
    Value part;
    if (t.kind == Term::Loop || !hasLane(t.operand)) {
      Index one = Index::ofTerm(term);
      part = hasLane(one) ? lanePositions(one) : position(one);
    } else {
      Value operand = lanePositions(t.operand);
      Value divisor = ops.integer(t.divisor, operand);
      part = t.kind == Term::Quotient ? ops.udiv(operand, divisor)
                                      : ops.urem(operand, divisor);
    }
    sum = ops.add(sum, ops.mul(part, ops.integer(coefficient, part)));
  }
  return sum;
}

Value KernelEmitter::indexValue(const Index &index) {
  noteUse(index);
  return hasLane(index) ? lanePositions(index) : position(index);
}

Value KernelEmitter::conditionValue(const Conditions &conditions) {
  Value all;
  for (const Condition &condition : conditions) {
    Value index = indexValue(condition.index);
    Value holds = ops.logicalAnd(
        ops.icmp(Ops::ICmp::sge, index, ops.integer(condition.low, index)),
        ops.icmp(Ops::ICmp::slt, index, ops.integer(condition.high, index)));
    all = all ? ops.logicalAnd(all, holds) : holds;
  }
  return all;
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

static Type storageOf(Ops &ops, Type element) {
  return element.isInteger(1) ? ops.b.getI8Type() : element;
}
static unsigned bytesOf(Type storage) {
  return storage.getIntOrFloatBitWidth() / 8;
}

Value KernelEmitter::load(Level *level, Value base, Type element,
                          const Index &where, const Conditions &conditions) {
  at(level);
  Type storage = storageOf(ops, element);
  unsigned bytes = bytesOf(storage);
  noteUse(where);
  Value exists = conditionValue(conditions);
  Value result;
  if (!hasLane(where) && !(exists && Ops::isVector(exists))) {
    Value index = position(where);
    // What does not exist is read from the first element, which does.
    if (exists)
      index = ops.select(exists, index, ops.i64(0));
    Value address = ops.address(storage, base, index);
    result = LLVM::LoadOp::create(b, ops.loc, storage, address, bytes);
  } else {
    VectorType type = Ops::vectorOf(storage);
    Value mask = laneMask(where);
    for (const Condition &condition : conditions)
      if (!mask)
        mask = laneMask(condition.index);
    if (exists)
      mask = mask ? ops.logicalAnd(mask, exists) : ops.toVector(exists);
    std::optional<int64_t> step = laneStep(where);
    if (step && *step == 1) {
      Value address = ops.address(storage, base, position(where));
      if (mask)
        result = LLVM::MaskedLoadOp::create(
            b, ops.loc, type, address, mask, ops.numberOf(type, 0),
            b.getI32IntegerAttr(bytes), UnitAttr());
      else
        result = LLVM::LoadOp::create(b, ops.loc, type, address, bytes);
    } else {
      Value index = ops.toVector(hasLane(where) ? lanePositions(where)
                                                : position(where));
      auto pointers =
          VectorType::get({kLanes}, LLVM::LLVMPointerType::get(b.getContext()));
      Value addresses = LLVM::GEPOp::create(b, ops.loc, pointers, storage, base,
                                            ValueRange{index});
      if (!mask)
        mask = ops.integerOf(Ops::vectorOf(b.getI1Type()), 1);
      result = LLVM::masked_gather::create(
          b, ops.loc, type, addresses, mask,
          ValueRange{ops.numberOf(type, 0)}, b.getI32IntegerAttr(bytes));
    }
  }
  if (element.isInteger(1))
    result = ops.icmp(Ops::ICmp::ne, result, ops.integer(0, result));
  return result;
}

void KernelEmitter::store(Level *level, Value base, Type element,
                          const Index &where, Value value) {
  at(level);
  noteUse(where);
  Type storage = storageOf(ops, element);
  unsigned bytes = bytesOf(storage);
  if (element.isInteger(1))
    value = ops.convert<LLVM::ZExtOp>(value, storage);
  Value address = ops.address(storage, base, position(where));
  if (!hasLane(where)) {
    LLVM::StoreOp::create(b, ops.loc, value, address, bytes);
    return;
  }
  value = ops.toVector(value);
  if (Value mask = laneMask(where))
    LLVM::MaskedStoreOp::create(b, ops.loc, TypeRange(), value, address, mask,
                                b.getI32IntegerAttr(bytes));
  else
    LLVM::StoreOp::create(b, ops.loc, value, address, bytes);
}
