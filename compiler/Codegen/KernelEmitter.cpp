//===- KernelEmitter.cpp - Loops of a kernel ------------------------------===//

#include "compiler/Codegen/KernelEmitter.h"

using namespace mlir;
using namespace mlir::mixle;
using namespace mlir::mixle::codegen;

static RankedTensorType tensorOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

KernelEmitter::KernelEmitter(exec::KernelOp kernel, OpBuilder &builder)
    : kernel(kernel), b(builder), ops(builder, kernel.getLoc()) {}

//===----------------------------------------------------------------------===//
// Plans
//===----------------------------------------------------------------------===//

void KernelEmitter::makeNests() {
  Operation *yield = kernel.getBody().front().getTerminator();
  SmallVector<unsigned> order =
      llvm::to_vector(llvm::seq<unsigned>(0, yield->getNumOperands()));
  llvm::stable_sort(order, [&](unsigned x, unsigned y) {
    return tensorOf(yield->getOperand(x)).getRank() >
           tensorOf(yield->getOperand(y)).getRank();
  });
  for (unsigned output : order) {
    ArrayRef<int64_t> shape = tensorOf(yield->getOperand(output)).getShape();
    auto nest = llvm::find_if(nests, [&](Nest &nest) {
      return nest.shape.take_front(shape.size()) == shape;
    });
    if (nest == nests.end()) {
      nests.push_back({{}, shape, {}, {}, true});
      for (int64_t extent : shape)
        nests.back().factors.push_back({extent});
      nest = std::prev(nests.end());
    }
    nest->outputs.push_back(output);
  }
}

bool KernelEmitter::splitLoops() {
  bool changed = false;
  for (auto [term, inner] : space.wantedSplits) {
    for (auto [nest, loops] : llvm::zip(nests, nestLoops)) {
      auto wanted = llvm::find_if(
          loops, [&, term = term](Loop &loop) { return loop.term == term; });
      if (wanted == loops.end() || wanted->extent % inner ||
          wanted->extent <= inner)
        continue;
      // Loops are numbered through the factors other than 1.
      size_t number = wanted - loops.begin();
      for (auto &factors : nest.factors) {
        for (size_t i = 0; i < factors.size(); ++i) {
          if (factors[i] == 1 || number-- != 0)
            continue;
          factors[i] = wanted->extent / inner;
          factors.insert(factors.begin() + i + 1, inner);
          nest.fused.clear();
          changed = true;
          goto split;
        }
      }
    split:
      if (changed)
        return true; // loop numbers have changed: emit again before the next
    }
  }
  return false;
}

/// Neighbours i and i + 1 become one loop if every index that was used moves by
/// as much per step of i as over all steps of i + 1.
void KernelEmitter::fuseLoops(Nest &nest, ArrayRef<Loop> loops,
                              ArrayRef<Index> uses) {
  nest.fused.assign(loops.size(), false);
  for (size_t i = 0; i + 1 < loops.size(); ++i)
    nest.fused[i] = llvm::all_of(uses, [&](const Index &use) {
      return use.coefficient(loops[i].term) ==
             use.coefficient(loops[i + 1].term) * loops[i + 1].extent;
    });
}

bool KernelEmitter::improvePlans() {
  if (splitLoops())
    return true;
  bool changed = false;
  for (size_t n = 0; n < nests.size(); ++n) {
    SmallVector<bool> before = nests[n].fused;
    fuseLoops(nests[n], nestLoops[n], nestUses[n]);
    changed |= before != nests[n].fused;
    if (nests[n].lanes && nestWantsRowLoops[n]) {
      nests[n].lanes = false;
      changed = true;
    }
  }
  return changed;
}

FailureOr<LLVM::LLVMFuncOp> KernelEmitter::emit() {
  makeNests();
  OpBuilder::InsertPoint module = b.saveInsertionPoint();
  for (;;) {
    b.restoreInsertionPoint(module);
    LLVM::LLVMFuncOp function = emitOnce();
    if (!improvePlans()) {
      b.restoreInsertionPoint(module);
      if (failed(checkAliases()))
        return failure();
      return function;
    }
    function.erase();
  }
}

/// An output that takes the storage of an input: every element of the input must
/// have been read when the output's element of that place is written. So reads
/// come from the same nest, at the same indices, or, from some dimension on, in a
/// reduction that is done before the loops over those dimensions.
LogicalResult KernelEmitter::checkAliases() {
  auto pairs = kernel->getAttrOfType<ArrayAttr>("aliases");
  if (!pairs)
    return success();
  Block &body = kernel.getBody().front();
  for (Attribute attribute : pairs) {
    auto pair = dyn_cast<DenseI64ArrayAttr>(attribute);
    if (!pair || pair.size() != 2 || pair[0] < 0 || pair[1] < 0 ||
        pair[0] >= body.getNumArguments() ||
        pair[1] >= body.getTerminator()->getNumOperands())
      return kernel.emitOpError("'aliases' must hold pairs of an input's and an "
                                "output's number, got ")
             << attribute;
    unsigned input = pair[0], output = pair[1];
    if (body.getArgument(input).getType() !=
        body.getTerminator()->getOperand(output).getType())
      return kernel.emitOpError("input ")
             << input << " and output " << output
             << " cannot share storage: their types differ";
    auto &[outputNest, domain] = outputDomains[output];
    SmallVector<unsigned> loops;
    for (const Index &index : domain)
      space.collectLoops(index, loops);
    for (Access &access : accesses) {
      if (access.input != input || access.nest < outputNest)
        continue;
      bool safe = access.nest == outputNest &&
                  access.indices.size() == domain.size();
      size_t d = 0;
      while (safe && d < domain.size() && access.indices[d] == domain[d])
        ++d;
      for (size_t i = d; safe && i < domain.size(); ++i) {
        SmallVector<unsigned> used;
        space.collectLoops(access.indices[i], used);
        safe = llvm::none_of(
            used, [&](unsigned term) { return llvm::is_contained(loops, term); });
      }
      if (!safe)
        return kernel.emitOpError("input ")
               << input << " and output " << output
               << " cannot share storage: elements would be overwritten before "
                  "they are read; give the output a buffer of its own";
    }
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Levels and loops
//===----------------------------------------------------------------------===//

KernelEmitter::Level *KernelEmitter::newLevel(unsigned depth) {
  levels.emplace_back();
  levels.back().depth = depth;
  return &levels.back();
}

void KernelEmitter::on(Level *level, function_ref<void()> code) {
  Level *before = writing;
  at(level);
  code();
  at(before);
}

KernelEmitter::Level *KernelEmitter::levelOf(ArrayRef<Index> indices,
                                             const Conditions &conditions) {
  SmallVector<unsigned> terms;
  for (const Index &index : indices)
    space.collectLoops(index, terms);
  for (const Condition &condition : conditions)
    space.collectLoops(condition.index, terms);
  Level *level = root;
  for (unsigned term : terms)
    if (loopStates[term].level->depth > level->depth)
      level = loopStates[term].level;
  return level;
}

SmallVector<Value> KernelEmitter::loop(
    Level *parent, Value low, Value high, int64_t step, ValueRange initial,
    function_ref<SmallVector<Value>(Level *, Value, ValueRange)> emitBody) {
  Location loc = ops.loc;
  Operation *anchor = parent->anchor;
  Block *before = anchor->getBlock();
  Block *after = before->splitBlock(anchor);
  Region *region = before->getParent();
  auto *header = new Block, *body = new Block;
  region->getBlocks().insert(after->getIterator(), header);
  region->getBlocks().insert(after->getIterator(), body);
  header->addArgument(b.getI64Type(), loc);
  for (Value value : initial)
    header->addArgument(value.getType(), loc);
  Value variable = header->getArgument(0);
  ValueRange carried = header->getArguments().drop_front();

  SmallVector<Value> entry{low};
  llvm::append_range(entry, initial);
  b.setInsertionPointToEnd(before);
  parent->anchor = LLVM::BrOp::create(b, loc, entry, header);

  b.setInsertionPointToEnd(header);
  Value more = ops.icmp(Ops::ICmp::slt, variable, high);
  LLVM::CondBrOp::create(b, loc, more, body, after);

  b.setInsertionPointToEnd(body);
  auto next = LLVM::BrOp::create(b, loc, header->getArguments(), header);
  b.setInsertionPoint(next);
  next->setOperand(0, ops.add(variable, ops.i64(step)));

  Level *level = newLevel(parent->depth + 1);
  level->anchor = next;
  at(level);
  SmallVector<Value> results = emitBody(level, variable, carried);
  for (auto [i, value] : llvm::enumerate(results))
    next->setOperand(i + 1, value);
  parent->anchor = anchor;
  at(parent);
  return SmallVector<Value>(carried);
}

//===----------------------------------------------------------------------===//
// Nests
//===----------------------------------------------------------------------===//

Value KernelEmitter::extentOf(const Group &group) {
  if (!group.dynamic)
    return ops.i64(group.fixed);
  Value extent = rows;
  if (group.fixed != 1)
    on(root, [&] { extent = ops.mul(rows, ops.i64(group.fixed)); });
  return extent;
}

void KernelEmitter::bind(const Group &group, Level *level, Value variable,
                         bool lane) {
  for (const Loop &loop : group.loops)
    loopStates[loop.term] = {level, variable, lane,
                             loop.term != group.loops.back().term};
}

Value KernelEmitter::tailMask(Level *level, Value variable, Value end) {
  at(level);
  Type i32 = b.getI32Type();
  Value rest = LLVM::TruncOp::create(b, ops.loc, i32, ops.sub(end, variable));
  return ops.icmp(Ops::ICmp::slt, ops.iota(i32), rest);
}

void KernelEmitter::emitGroups(Nest &nest, ArrayRef<Group> groups,
                               unsigned number, Level *level,
                               ArrayRef<Index> domain) {
  if (number == groups.size())
    return storeOutputs(nest, level, domain);
  const Group &group = groups[number];
  bool last = number + 1 == groups.size();
  at(level);
  Value end = extentOf(group);
  auto body = [&](Level *inner, Value variable, bool lane) {
    bind(group, inner, variable, lane);
    emitGroups(nest, groups, number + 1, inner, domain);
    return SmallVector<Value>();
  };
  if (last && nest.lanes) {
    at(level);
    Value whole = end;
    if (!group.dynamic)
      whole = ops.i64(group.fixed / kLanes * kLanes);
    else if (group.fixed % kLanes)
      on(level, [&] { whole = ops.logicalAnd(end, ops.i64(-kLanes)); });
    if (group.dynamic || group.fixed >= kLanes || group.fixed == 0)
      loop(level, ops.i64(0), whole, kLanes, {},
           [&](Level *inner, Value variable, ValueRange) {
             return body(inner, variable, true);
           });
    if (group.fixed % kLanes)
      loop(level, whole, end, kLanes, {},
           [&](Level *inner, Value variable, ValueRange) {
             inner->mask = tailMask(inner, variable, end);
             return body(inner, variable, true);
           });
  } else {
    loop(level, ops.i64(0), end, 1, {},
         [&](Level *inner, Value variable, ValueRange) {
           return body(inner, variable, false);
         });
  }
  storeOutputs(nest, level, domain);
}

void KernelEmitter::storeOutputs(Nest &nest, Level *level,
                                 ArrayRef<Index> domain) {
  Operation *yield = kernel.getBody().front().getTerminator();
  // All values before the first store: an output may lie where an input does.
  SmallVector<std::pair<unsigned, Value>> values;
  for (unsigned output : nest.outputs) {
    Value tensor = yield->getOperand(output);
    ArrayRef<Index> indices = domain.take_front(tensorOf(tensor).getRank());
    if (levelOf(indices) == level)
      values.push_back({output, evaluate(tensor, indices, {})});
  }
  for (auto [output, value] : values) {
    auto type = tensorOf(yield->getOperand(output));
    Index where =
        space.linearize(domain.take_front(type.getRank()), type.getShape());
    store(level, outputs[output], type.getElementType(), where, value);
  }
}

void KernelEmitter::emitNest(unsigned number) {
  current = number;
  Nest &nest = nests[number];
  SmallVector<Loop> &loops = nestLoops[number];
  Indices domain;
  for (auto &factors : nest.factors) {
    Index index;
    for (int64_t extent : factors) {
      if (extent == 1)
        continue;
      bool dynamic = ShapedType::isDynamic(extent);
      unsigned term =
          space.addLoop(dynamic ? IndexSpace::kUnbounded : extent);
      loops.push_back({term, extent});
      index = (dynamic ? Index() : index * extent) + Index::ofTerm(term);
    }
    domain.push_back(index);
  }
  loopStates.resize(space.size());
  nest.fused.resize(loops.size(), false);

  SmallVector<Group> groups;
  bool continues = false;
  for (auto [loop, fused] : llvm::zip(loops, nest.fused)) {
    if (!continues)
      groups.emplace_back();
    groups.back().loops.push_back(loop);
    if (ShapedType::isDynamic(loop.extent))
      groups.back().dynamic = true;
    else
      groups.back().fixed *= loop.extent;
    continues = fused;
  }
  Operation *yield = kernel.getBody().front().getTerminator();
  for (unsigned output : nest.outputs) {
    size_t rank = tensorOf(yield->getOperand(output)).getRank();
    outputDomains[output] = {number, Indices(ArrayRef<Index>(domain).take_front(rank))};
  }
  emitGroups(nest, groups, 0, root, domain);
}

LLVM::LLVMFuncOp KernelEmitter::emitOnce() {
  space = IndexSpace();
  loopStates.clear();
  levels.clear();
  inputs.clear();
  outputs.clear();
  columnScalars.clear();
  accesses.clear();
  nestLoops.assign(nests.size(), {});
  nestUses.assign(nests.size(), {});
  nestWantsRowLoops.assign(nests.size(), false);

  auto pointer = LLVM::LLVMPointerType::get(b.getContext());
  auto type = LLVM::LLVMFunctionType::get(
      LLVM::LLVMVoidType::get(b.getContext()), {pointer, pointer});
  function =
      LLVM::LLVMFuncOp::create(b, ops.loc, kernel.getSymName(), type);
  function.setNoUnwind(true);
  Block *entry = function.addEntryBlock(b);
  b.setInsertionPointToEnd(entry);
  root = newLevel(0);
  root->anchor = LLVM::ReturnOp::create(b, ops.loc, ValueRange());
  ops.setConstantBlock(entry);
  at(root);

  Value buffers = entry->getArgument(0), scalars = entry->getArgument(1);
  auto scalar = [&](int64_t i) -> Value {
    Value address = ops.address(b.getI64Type(), scalars, ops.i64(i));
    return LLVM::LoadOp::create(b, ops.loc, b.getI64Type(), address, 8);
  };
  Block &body = kernel.getBody().front();
  int64_t number = 0;
  auto buffer = [&]() -> Value {
    Value address = ops.address(pointer, buffers, ops.i64(number++));
    return LLVM::LoadOp::create(b, ops.loc, pointer, address, 8);
  };
  for (unsigned i = 0; i < body.getNumArguments(); ++i)
    inputs.push_back(buffer());
  for (unsigned i = 0; i < body.getTerminator()->getNumOperands(); ++i)
    outputs.push_back(buffer());
  rows = scalar(0);
  int64_t next = 1;
  for (Operation &op : body) {
    if (!takesColumnScalars(&op))
      continue;
    Value valid = scalar(next), first = scalar(next + 1);
    columnScalars[&op] = {valid, first};
    next += 2;
  }
  outputDomains.assign(outputs.size(), {});
  for (unsigned nest = 0; nest < nests.size(); ++nest)
    emitNest(nest);
  return function;
}
