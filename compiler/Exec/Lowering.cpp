//===- Lowering.cpp - Buffers, scalars and entries ------------------------===//

#include "compiler/Exec/Lowering.h"
#include "runtime/kernels/ExactSum.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace mlir::exec;

int64_t mlir::exec::elementBytes(Type element) {
  if (element.isIntOrFloat())
    return std::max<int64_t>(1, element.getIntOrFloatBitWidth() / 8);
  return 8;
}

/// The type that a value had before the program was cut into ranks' parts.
static RankedTensorType globalTypeOf(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    auto entry = cast<mx::EntryOp>(argument.getOwner()->getParentOp());
    if (auto type = entry.getArgAttrOfType<TypeAttr>(argument.getArgNumber(),
                                                     dist::kGlobalTypeAttr))
      return cast<RankedTensorType>(type.getValue());
  } else if (auto types = value.getDefiningOp()->getAttrOfType<ArrayAttr>(
                 dist::kGlobalTypesAttr)) {
    return cast<RankedTensorType>(
        cast<TypeAttr>(types[cast<OpResult>(value).getResultNumber()]).getValue());
  }
  return cast<RankedTensorType>(value.getType());
}

//===----------------------------------------------------------------------===//
// The program
//===----------------------------------------------------------------------===//

ProgramLowering::ProgramLowering(mx::ProgramOp source, ProgramOp target,
                                 dist::MeshOp mesh, int64_t stage,
                                 KernelNames &kernelNames)
    : source(source), target(target), mesh(mesh),
      builder(target.getBodyRegion()), symbols(target),
      limbCount(::mixle::runtime::ExactSum::limbCount), stage(stage),
      pipeline(mesh.sizeOf("pp")), kernelNames(kernelNames) {
  floatType = builder.getF32Type();
  for (auto parameter : source.getOps<mx::ParameterOp>())
    floatType = cast<RankedTensorType>(parameter.getType()).getElementType();

  // Units: every parameter that some entry accumulates into.
  int64_t batch = static_cast<int64_t>(mx::configNumber(source, "batch", 1));
  source.walk([&](Operation *op) {
    if (op->getParentOfType<mx::EntryOp>() &&
        op->getParentOfType<mx::EntryOp>().getSymName() != "accumulate")
      return;
    FlatSymbolRefAttr of = op->getAttrOfType<FlatSymbolRefAttr>("of");
    if (!of)
      return;
    Value input;
    int64_t block = 1, dims = 0;
    if (auto dot = dyn_cast<mx::AccumulateDotOp>(op)) {
      input = dot.getLhs();
      block = static_cast<int64_t>(dot.getBlock());
      dims = static_cast<int64_t>(dot.getDataDims());
    } else if (auto rows = dyn_cast<mx::AccumulateRowsOp>(op)) {
      input = rows.getInput();
      dims = static_cast<int64_t>(rows.getDataDims());
    } else if (auto scatter = dyn_cast<mx::AccumulateScatterOp>(op)) {
      input = scatter.getIds();
      dims = scatter.getIds().getType().getRank();
    } else {
      return;
    }
    UnitInfo &unit = units[of.getValue()];
    int64_t tokens = 1;
    // Of the whole job: the number of blocks decides units, so no plan may.
    auto type = globalTypeOf(input);
    for (int64_t d = 1; d < dims; ++d)
      tokens *= type.getDimSize(d);
    bool oneToken = !isa<mx::AccumulateDotOp>(op);
    unit.oneTokenBlocks &= oneToken;
    unit.maxBlocks += batch * ((tokens + block - 1) / block);
  });
  // In the order of the parameters, so that indices do not depend on uses.
  for (auto parameter : source.getOps<mx::ParameterOp>()) {
    auto it = units.find(parameter.getSymName());
    if (it != units.end())
      it->second.index = numUnits++;
  }
}

FlatSymbolRefAttr ProgramLowering::buffer(StringRef name, StringRef kind,
                                          Type element, int64_t fixed,
                                          int64_t perRow, StringRef parameter,
                                          StringRef slot) {
  auto reference = FlatSymbolRefAttr::get(builder.getContext(), name);
  if (symbols.lookup(name))
    return reference;
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(&target.getBody().front());
  // After the buffers that are there already.
  for (Operation &op : target.getBody().front())
    if (isa<BufferOp>(op))
      builder.setInsertionPointAfter(&op);
    else
      break;
  auto op = BufferOp::create(
      builder, target.getLoc(), builder.getStringAttr(name),
      builder.getStringAttr(kind), TypeAttr::get(element),
      builder.getI64IntegerAttr(fixed), builder.getI64IntegerAttr(perRow),
      IntegerAttr(),
      parameter.empty() ? FlatSymbolRefAttr()
                        : FlatSymbolRefAttr::get(builder.getContext(), parameter),
      slot.empty() ? StringAttr() : builder.getStringAttr(slot));
  symbols.insert(op);
  return reference;
}

FlatSymbolRefAttr ProgramLowering::unitsBuffer() {
  return buffer("units", "state", builder.getI32Type(), numUnits, 0, {}, "units");
}

FlatSymbolRefAttr ProgramLowering::amaxBuffer() {
  return buffer("amax", "accumulator", builder.getI64Type(), numUnits, 0);
}

FlatSymbolRefAttr ProgramLowering::uniqueKernel(KernelOp kernel) {
  // Two kernels are one if they print alike but for the name.
  std::string text;
  {
    kernel.setSymName("kernel");
    llvm::raw_string_ostream stream(text);
    // By itself: printing would else verify and number the whole module each time.
    kernel.print(stream, OpPrintingFlags()
                             .useLocalScope()
                             .assumeVerified()
                             .elideLargeElementsAttrs());
  }
  auto [it, isNew] = kernelNames.try_emplace(text);
  if (isNew)
    it->second = "kernel_" + std::to_string(kernelNames.size() - 1);
  auto reference = FlatSymbolRefAttr::get(builder.getContext(), it->second);
  if (symbols.lookup(it->second)) {
    kernel.erase();
    return reference;
  }
  kernel.setSymName(it->second);
  symbols.insert(kernel);
  return reference;
}

FlatSymbolRefAttr ProgramLowering::update(dist::UpdateOp op) {
  // The op's own fields, without the placements that served their purpose.
  NamedAttrList fields;
  auto properties = cast<DictionaryAttr>(op->getPropertiesAsAttribute());
  for (StringRef name :
       {"node_id", "payload", "collective", "mesh_axes", "state_layout", "exact",
        "contract_exact", "reduction_order", "error_bound", "notes"})
    if (Attribute value = properties.get(name))
      fields.set(name, value);
  // A transfer's stages are from and to; an exchange's those that take part.
  ArrayRef<int64_t> stages = dist::stagesOf(op);
  if (op.getCollective() == "p2p")
    fields.set("stages", builder.getDenseI64ArrayAttr(
                             {dist::rankOfStage(stages[0], pipeline),
                              dist::rankOfStage(stages[1], pipeline)}));
  else if (SmallVector<int64_t> ranks = participants(op); !ranks.empty())
    fields.set("stages", builder.getDenseI64ArrayAttr(ranks));
  std::string name = op.getNodeId().str();
  auto reference = FlatSymbolRefAttr::get(builder.getContext(), name);
  if (symbols.lookup(name))
    return reference;
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToEnd(&target.getBody().front());
  auto created =
      UpdateOp::create(builder, op.getLoc(), builder.getStringAttr(name),
                       fields.getDictionary(builder.getContext()));
  symbols.insert(created);
  return reference;
}

ScalarAttr ProgramLowering::scalar(StringRef kind, StringRef axis, int64_t a,
                                   int64_t b) {
  return ScalarAttr::get(builder.getContext(), builder.getStringAttr(kind),
                         builder.getStringAttr(axis), a, b);
}
ScalarAttr ProgramLowering::constant(int64_t value) {
  return scalar("constant", "", value);
}
ScalarAttr ProgramLowering::rows(int64_t factor) {
  return scalar("rows", "", factor);
}

//===----------------------------------------------------------------------===//
// An entry
//===----------------------------------------------------------------------===//

EntryLowering::EntryLowering(ProgramLowering &program, mx::EntryOp entry,
                             EntryOp target)
    : program(program), entry(entry), target(target),
      builder(OpBuilder::atBlockBegin(&target.getBody().front())),
      suffix(program.floatType.isF64() ? "_f64" : "_f32") {}

bool EntryLowering::hasRows(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  return tensor.getRank() > 0 && tensor.isDynamicDim(0);
}

int64_t EntryLowering::perRow(Type type) {
  int64_t n = 1;
  for (int64_t d : cast<RankedTensorType>(type).getShape())
    if (!ShapedType::isDynamic(d))
      n *= d;
  return n;
}

ScalarAttr EntryLowering::count(Type type) {
  return hasRows(type) ? program.rows(perRow(type))
                       : program.constant(perRow(type));
}

ScalarAttr EntryLowering::countLeading(Type type, int64_t leading) {
  int64_t n = 1;
  ArrayRef<int64_t> shape = cast<RankedTensorType>(type).getShape();
  for (int64_t d : shape.take_front(leading))
    if (!ShapedType::isDynamic(d))
      n *= d;
  return leading > 0 && ShapedType::isDynamic(shape[0]) ? program.rows(n)
                                                        : program.constant(n);
}

RankedTensorType EntryLowering::globalType(Value value) {
  return globalTypeOf(value);
}

std::pair<ScalarAttr, ScalarAttr> EntryLowering::owned(Value value, int64_t d) {
  int64_t local = cast<RankedTensorType>(value.getType()).getDimSize(d);
  dist::Placement placement = dist::placementOf(value);
  if (placement.dims[d].empty())
    return {program.constant(local), program.constant(0)};
  StringRef axis = placement.dims[d].front();
  int64_t size = globalType(value).getDimSize(d);
  return {program.scalar("owned", axis, local, size),
          program.scalar("offset", axis, local)};
}

UnitInfo &EntryLowering::unitOf(FlatSymbolRefAttr parameter) {
  return program.units[parameter.getValue()];
}

FlatSymbolRefAttr EntryLowering::scratch(Type type, int64_t slots) {
  auto tensor = cast<RankedTensorType>(type);
  std::string name =
      (entry.getSymName() + "." + Twine(nextScratch++)).str();
  Type element = tensor.getElementType();
  int64_t n = perRow(type) * slots;
  if (isa<mx::ExactType>(element)) {
    element = builder.getI64Type();
    n = program.limbCount;
  }
  bool rows = hasRows(type);
  return program.buffer(name, "scratch", element, rows ? 0 : n, rows ? n : 0);
}

FlatSymbolRefAttr EntryLowering::persistentFor(StringRef role,
                                               FlatSymbolRefAttr of,
                                               StringRef slot, Type type) {
  auto tensor = cast<RankedTensorType>(type);
  Type element = tensor.getElementType();
  if (role == "parameter")
    return program.buffer("p." + of.getValue().str(), "parameter", element,
                          perRow(type), 0, of.getValue());
  if (role == "state")
    return program.buffer("s." + of.getValue().str() + "." + slot.str(), "state",
                          element, perRow(type), 0, of.getValue(), slot);
  if (role == "accumulator") {
    // Two limbs for f64. Under dp_shard the buffer is padded to equal parts.
    int64_t limbs = cast<mx::AccType>(element).getValue().isF64() ? 2 : 1;
    int64_t shards = program.mesh.sizeOf("dp_shard");
    int64_t n = (perRow(type) + shards - 1) / shards * shards;
    return program.buffer("a." + of.getValue().str(), "accumulator",
                          builder.getI64Type(), n * limbs, 0, of.getValue());
  }
  if (role == "counter")
    return program.buffer("state.step", "state", builder.getI64Type(), 1, 0, {}, "step");
  // Running scalars. An evaluation has its own, so that it can come between the
  // calls of a window.
  std::string name = role.str();
  if (entry.getSymName() == "evaluate")
    name = "evaluate." + name;
  bool exact = isa<mx::ExactType>(element);
  return program.buffer(name, "accumulator", builder.getI64Type(),
                        exact ? program.limbCount : 1, 0);
}

LogicalResult EntryLowering::bindArguments() {
  Builder b(entry.getContext());
  SmallVector<Attribute> inputs;
  for (BlockArgument argument : entry.getArguments()) {
    unsigned index = argument.getArgNumber();
    StringRef role = mx::argumentRole(entry, index);
    auto type = cast<RankedTensorType>(argument.getType());
    bool data = role == "tokens" || role == "labels" || role == "rows" ||
                role == "row_weights";
    if (data) {
      FlatSymbolRefAttr buffer =
          program.buffer("in." + role.str(), "input", type.getElementType(), 0,
                         perRow(type));
      bind(argument, buffer);
      inputs.push_back(b.getDictionaryAttr(
          {b.getNamedAttr("role", b.getStringAttr(role)),
           b.getNamedAttr("buffer", buffer)}));
      continue;
    }
    FlatSymbolRefAttr of = mx::argumentOf(entry, index);
    if (of && !program.holds(of))
      continue;
    auto slot = entry.getArgAttrOfType<StringAttr>(index, mx::kSlotAttr);
    bind(argument, persistentFor(role, mx::argumentOf(entry, index),
                                 slot ? slot.getValue() : StringRef(), type));
  }
  target.setInputsAttr(b.getArrayAttr(inputs));
  return success();
}

FlatSymbolRefAttr EntryLowering::bufferOf(Value value) {
  auto it = buffers.find(value);
  return it == buffers.end() ? materialize(value) : it->second;
}

void EntryLowering::call(Twine function, ArrayRef<FlatSymbolRefAttr> arguments,
                         ArrayRef<ScalarAttr> scalars, ArrayRef<double> floats,
                         StringRef text) {
  SmallVector<Attribute> bufferAttrs(arguments.begin(), arguments.end());
  SmallVector<Attribute> scalarAttrs(scalars.begin(), scalars.end());
  CallOp::create(builder, entry.getLoc(), builder.getStringAttr(function),
                 builder.getArrayAttr(bufferAttrs),
                 builder.getArrayAttr(scalarAttrs),
                 builder.getDenseF64ArrayAttr(floats),
                 text.empty() ? StringAttr() : builder.getStringAttr(text));
}

void EntryLowering::fill(FlatSymbolRefAttr buffer, int64_t bytes) {
  FillOp::create(builder, entry.getLoc(), buffer, program.constant(bytes));
}

LogicalResult EntryLowering::lower() {
  if (failed(bindArguments()))
    return failure();
  selectOps();
  StringRef name = entry.getSymName();
  auto terminator = cast<mx::ReturnOp>(entry.getBody().front().getTerminator());

  // Where results replace persistent state, ops write there directly.
  if (name == "step" || name == "estimate")
    for (unsigned i = 0; i < entry.getNumResults(); ++i) {
      StringRef role = mx::resultRole(entry, i);
      if (role != "parameter" && role != "state")
        continue;
      Value value = terminator.getOperand(i);
      auto slot = entry.getResultAttrOfType<StringAttr>(i, mx::kSlotAttr);
      auto of = entry.getResultAttrOfType<FlatSymbolRefAttr>(i, mx::kOfAttr);
      if (of && !program.holds(of))
        continue;
      destinations[value] = persistentFor(
          role, of,
          slot ? slot.getValue() : StringRef(), value.getType());
    }

  bool loops = name == "accumulate" || name == "evaluate" || name == "log_density";
  if (name == "evaluate")
    for (BlockArgument argument : entry.getArguments()) {
      StringRef role = mx::argumentRole(entry, argument.getArgNumber());
      if (role == "loss" || role == "count")
        fill(bufferOf(argument), role == "loss" ? program.limbCount * 8 : 8);
    }
  if (name == "accumulate" && program.stage >= 0) {
    openSchedule();
  } else if (loops) {
    auto loop = LoopOp::create(
        builder, entry.getLoc(),
        builder.getI64IntegerAttr(program.mesh.planField("microbatches")));
    loop.getBody().emplaceBlock();
    afterLoop = loop;
    builder.setInsertionPointToStart(&loop.getBody().front());
  }
  if (name == "step") {
    // Units first: does the window have to be accumulated again?
    Type i32 = builder.getI32Type();
    FlatSymbolRefAttr units = program.unitsBuffer();
    FlatSymbolRefAttr amax = program.amaxBuffer();
    FlatSymbolRefAttr rerun = program.buffer("flag.rerun", "accumulator", i32, 1, 0);
    FlatSymbolRefAttr finite = program.buffer("flag.finite", "accumulator", i32, 1, 0);
    NamedAttrList fields;
    fields.set("node_id", builder.getStringAttr("units:amax"));
    fields.set("payload", builder.getStringAttr("sufficient_statistic"));
    fields.set("collective", builder.getStringAttr("all_reduce"));
    SmallVector<StringRef> axes;
    for (StringRef axis : dist::kAxes)
      if (program.mesh.sizeOf(axis) > 1)
        axes.push_back(axis);
    fields.set("mesh_axes", builder.getStrArrayAttr(axes));
    fields.set("state_layout", builder.getStringAttr("replicated"));
    fields.set("exact", builder.getBoolAttr(false));
    fields.set("contract_exact", builder.getBoolAttr(true));
    fields.set("reduction_order", builder.getStringAttr("copy"));
    fields.set("error_bound", builder.getStringAttr("0"));
    fields.set("notes", builder.getStrArrayAttr({"a maximum is exact in any order"}));
    if (!axes.empty()) {
      OpBuilder top = OpBuilder::atBlockEnd(&program.target.getBody().front());
      auto update = UpdateOp::create(top, entry.getLoc(),
                                     builder.getStringAttr("units:amax"),
                                     fields.getDictionary(builder.getContext()));
      program.symbols.insert(update);
      CollectiveOp::create(
          builder, entry.getLoc(), builder.getStringAttr("all_reduce"),
          builder.getArrayAttr({amax}),
          builder.getArrayAttr({program.constant(program.numUnits)}),
          TypeAttr::get(builder.getIntegerType(64, false)),
          builder.getStringAttr("max"), builder.getStrArrayAttr(axes),
          builder.getArrayAttr({FlatSymbolRefAttr::get(
              builder.getContext(), "units:amax")}),
          builder.getDenseI64ArrayAttr({}));
    }
    call("decide_units", {units, amax, rerun, finite},
         {program.constant(program.numUnits)});
    CommitIfOp::create(builder, entry.getLoc(), finite,
                       builder.getStringAttr("non_finite"));
    RetryOp::create(builder, entry.getLoc(), rerun);
  }

  for (Operation &op : entry.getBody().front()) {
    if (isCheap(&op))
      continue;
    if (!runsHere(&op)) {
      passOn(&op);
      continue;
    }
    // In a schedule, what stands on no stage is made where it is needed.
    bool floats = schedule && dist::stagesOf(&op).empty() && !isa<mx::ReturnOp>(op);
    if (floats)
      continue;
    if (schedule && !isa<mx::ReturnOp>(op)) {
      auto transfer = dyn_cast<dist::UpdateOp>(op);
      if (!(transfer && transfer.getCollective() == "p2p") &&
          failed(enterPhaseOf(&op)))
        return failure();
    }
    // In an evaluation the sums over data leave the loop.
    auto update = dyn_cast<dist::UpdateOp>(op);
    if (afterLoop && (isa<mx::ReturnOp>(op) ||
                      (update && (update.getMerge() == "integer" ||
                                  update.getMerge() == "exact")))) {
      if (failed(flushGroup()))
        return failure();
      builder.setInsertionPointAfter(afterLoop);
      afterLoop = nullptr;
    }
    if (isPointwise(&op)) {
      if (failed(addToGroup(&op)))
        return failure();
      continue;
    }
    if (failed(flushGroup()) || failed(lowerOp(&op)))
      return failure();
  }
  return schedule ? finishSchedule() : success();
}
