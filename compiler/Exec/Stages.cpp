//===- Stages.cpp - One rank class of a pipeline --------------------------===//

#include "compiler/Exec/Lowering.h"

using namespace mlir;
using namespace mlir::exec;
using dist::PipelinePhase;
using dist::PipelineRun;

//===----------------------------------------------------------------------===//
// The program
//===----------------------------------------------------------------------===//

bool ProgramLowering::onStages(ArrayRef<int64_t> stages) const {
  return stage < 0 || llvm::any_of(stages, [&](int64_t s) {
           return dist::rankOfStage(s, pipeline) == stage;
         });
}

bool ProgramLowering::holds(FlatSymbolRefAttr parameter) {
  auto op = source.lookupSymbol<mx::ParameterOp>(parameter.getAttr());
  return !op || onStages(dist::stagesOf(op));
}

SmallVector<int64_t> ProgramLowering::participants(dist::UpdateOp op) const {
  SmallVector<int64_t> ranks;
  if (!llvm::is_contained(op.getMeshAxes().getAsValueRange<StringAttr>(), "pp"))
    return ranks;
  for (int64_t s : dist::stagesOf(op)) {
    int64_t rank = dist::rankOfStage(s, pipeline);
    if (!llvm::is_contained(ranks, rank))
      ranks.push_back(rank);
  }
  llvm::sort(ranks);
  if (static_cast<int64_t>(ranks.size()) == pipeline)
    ranks.clear();
  return ranks;
}

//===----------------------------------------------------------------------===//
// An entry
//===----------------------------------------------------------------------===//

void EntryLowering::selectOps() {
  all = program.stage < 0;
  if (all)
    return;
  Block &body = entry.getBody().front();
  Operation *terminator = body.getTerminator();
  here.insert(terminator);
  for (Operation &op : llvm::reverse(body.without_terminator())) {
    if (!dist::stagesOf(&op).empty()) {
      if (program.onStages(dist::stagesOf(&op)))
        here.insert(&op);
      continue;
    }
    bool needed = false;
    for (OpOperand &use : op.getUses()) {
      if (use.getOwner() != terminator) {
        needed |= here.contains(use.getOwner());
        continue;
      }
      auto of = entry.getResultAttrOfType<FlatSymbolRefAttr>(
          use.getOperandNumber(), mx::kOfAttr);
      needed |= !of || program.holds(of);
    }
    if (needed)
      here.insert(&op);
  }
}

void EntryLowering::passOn(Operation *op) {
  auto placed = dyn_cast<mx::PlacementOpInterface>(op);
  int accumulator = placed ? placed.getPlacementRule().accumulatorOperand : -1;
  if (accumulator < 0)
    return;
  auto it = buffers.find(op->getOperand(accumulator));
  if (it != buffers.end())
    bind(op->getResult(0), it->second);
}

/// Phases of a chunk: forward, backward, and weights where they stand apart.
static int64_t phasesPerChunk(const std::string &name) {
  return dist::splitsBackward(name) ? 3 : 2;
}

void EntryLowering::openSchedule() {
  std::string name = mx::configText(program.source, "pipeline_schedule", "1f1b");
  int64_t chunks = dist::pipelineChunks(program.source);
  int64_t microbatches = program.mesh.planField("microbatches");
  program.schedule = dist::makeSchedule(name, program.pipeline, chunks, microbatches);

  int64_t perChunk = phasesPerChunk(name);
  SmallVector<int64_t> runs;
  for (const PipelineRun &run : program.schedule.ranks[program.stage])
    runs.append({run.chunk * perChunk + static_cast<int64_t>(run.phase),
                 run.microbatch, run.slot});
  schedule = ScheduleOp::create(builder, entry.getLoc(),
                                builder.getI64IntegerAttr(microbatches),
                                builder.getDenseI64ArrayAttr(runs));
  schedule.getBody().emplaceBlock();
  afterLoop = schedule;
  OpBuilder inner = OpBuilder::atBlockBegin(&schedule.getBody().front());
  static const char *const names[] = {"forward", "backward", "weights"};
  for (int64_t c = 0; c < chunks; ++c)
    for (int64_t p = 0; p < perChunk; ++p) {
      auto phase = PhaseOp::create(
          inner, entry.getLoc(),
          inner.getStringAttr(std::string(names[p]) + "." + std::to_string(c)));
      phase.getBody().emplaceBlock();
      phases.push_back(phase);
    }
  if (perChunk < 3)
    return;
  // Accumulations, and what serves nothing else.
  for (Operation &op : llvm::reverse(entry.getBody().front().without_terminator())) {
    auto phase = op.getAttrOfType<StringAttr>(mx::kPhaseAttr);
    auto placed = dyn_cast<mx::PlacementOpInterface>(op);
    if (!phase || phase.getValue() != "backward" || !placed ||
        isa<dist::UpdateOp>(op))
      continue;
    bool accumulates = placed.getPlacementRule().accumulatorOperand >= 0;
    bool serves = !op.use_empty() && llvm::all_of(op.getUsers(), [&](Operation *user) {
      return weightOps.contains(user);
    });
    if (accumulates || serves)
      weightOps.insert(&op);
  }
}

LogicalResult EntryLowering::enterPhase(int64_t stage, PipelinePhase phase) {
  int64_t perChunk = static_cast<int64_t>(phases.size()) /
                     dist::pipelineChunks(program.source);
  PhaseOp next = phases[dist::chunkOfStage(stage, program.pipeline) * perChunk +
                        static_cast<int64_t>(phase)];
  if (next == currentPhase)
    return success();
  if (failed(flushGroup()))
    return failure();
  for (Value value : madeInPhase)
    buffers.erase(value);
  madeInPhase.clear();
  currentPhase = next;
  builder.setInsertionPointToEnd(&next.getBody().front());
  return success();
}

static PipelinePhase phaseNamed(Operation *op, StringRef attribute) {
  auto phase = op->getAttrOfType<StringAttr>(attribute);
  return phase && phase.getValue() == "backward" ? PipelinePhase::Backward
                                                 : PipelinePhase::Forward;
}

LogicalResult EntryLowering::enterPhaseOf(Operation *op) {
  PipelinePhase phase = weightOps.contains(op) ? PipelinePhase::Weight
                                               : phaseNamed(op, mx::kPhaseAttr);
  // Of a parameter that several of this rank's stages hold, any will do.
  for (int64_t s : dist::stagesOf(op))
    if (dist::rankOfStage(s, program.pipeline) == program.stage)
      return enterPhase(s, phase);
  return success();
}

LogicalResult EntryLowering::lowerTransfer(dist::UpdateOp op) {
  if (failed(flushGroup()))
    return failure();
  ArrayRef<int64_t> stages = dist::stagesOf(op);
  int64_t from = dist::rankOfStage(stages[0], program.pipeline);
  int64_t to = dist::rankOfStage(stages[1], program.pipeline);
  Type element = cast<RankedTensorType>(op.getInput().getType()).getElementType();
  bool sends = from == program.stage;
  if (schedule &&
      failed(enterPhase(stages[sends ? 0 : 1],
                        phaseNamed(op, sends ? StringRef(mx::kPhaseAttr)
                                             : StringRef(dist::kToPhaseAttr)))))
    return failure();
  FlatSymbolRefAttr update = program.update(op);
  ScalarAttr elements = count(op.getInput().getType());
  if (sends) {
    SendOp::create(builder, op.getLoc(), bufferOf(op.getInput()), elements,
                   builder.getI64IntegerAttr(to), TypeAttr::get(element), update);
    return success();
  }
  bind(op.getResult(), scratch(op.getType()));
  RecvOp::create(builder, op.getLoc(), buffers[op.getResult()], elements,
                 builder.getI64IntegerAttr(from), TypeAttr::get(element), update);
  // A prediction that nobody here uses still is this rank's to show.
  for (OpOperand &use : op.getInput().getUses())
    if (isa<mx::ReturnOp>(use.getOwner()))
      bind(op.getInput(), buffers[op.getResult()]);
  return success();
}

LogicalResult EntryLowering::finishSchedule() {
  int64_t perChunk = static_cast<int64_t>(phases.size()) /
                     dist::pipelineChunks(program.source);
  llvm::StringMap<int64_t> firstPhase;
  for (auto [i, phase] : llvm::enumerate(phases))
    for (Operation &command : phase.getBody().front())
      for (const Access &access : accessesOf(&command)) {
        auto buffer = program.target.lookupSymbol<BufferOp>(access.buffer.getValue());
        if (!buffer || buffer.getKind() != "scratch")
          continue;
        int64_t at = static_cast<int64_t>(i);
        auto [it, isNew] = firstPhase.try_emplace(access.buffer.getValue(), at);
        if (isNew || it->second == at)
          continue;
        int64_t chunk = at / perChunk;
        if (it->second / perChunk != chunk)
          return entry.emitError("buffer '")
                 << access.buffer.getValue()
                 << "' would live from one chunk of the pipeline to another";
        buffer.setSlots(program.schedule.slots[program.stage][chunk]);
      }
  return success();
}
