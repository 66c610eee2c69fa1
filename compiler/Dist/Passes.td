//===- Passes.td - Plan and distribution passes ------------*- tablegen -*-===//

#ifndef DIST_PASSES_TD
#define DIST_PASSES_TD

include "mlir/Pass/PassBase.td"

def CheckPlan : Pass<"plan-check", "::mlir::mixle::ProgramOp"> {
  let summary = "Checks a plan against the backend and the program, and makes the mesh.";
  let description = [{
    Before: a logical program. After: the same with `dist.mesh @mesh`. Fails,
    naming backend, field, value and the nearest plans that work, before any
    other work: axes that the backend does not execute, heads that tp does not
    divide, a cut inside a granule.
  }];
  let options = [
    Option<"plan", "plan", "std::string", "\"\"", "The plan, e.g. dp_replicate=2,tp=2">,
    Option<"precision", "precision", "std::string", "\"fp32\"", "fp32 or fp64">
  ];
  let dependentDialects = ["::mlir::dist::DistDialect"];
}

def AssignStages : Pass<"dist-assign-stages", "::mlir::mixle::ProgramOp"> {
  let summary = "Cuts the program into pipeline stages.";
  let description = [{
    The forward pass of `@accumulate` is cut where fewest values cross, so that the
    costliest stage costs least (embedding and head count); `pipeline_split` in the
    program's config names the scopes at which stages begin instead. Parameters
    get `dist.stages`, the stages that use them, and ops `dist.stages`, where they
    run: forward ops with their latest operand, backward ops with their earliest.
    Ops without it depend on no data and run wherever they are needed. With
    `pipeline_chunks` = v a rank has v stages, v-1 times the number of ranks apart.
    Nothing happens where pp = 1.
  }];
}

def InsertTransfers : Pass<"dist-insert-transfers", "::mlir::mixle::ProgramOp"> {
  let summary = "Sends values from the stage that makes them to those that use them.";
  let description = [{
    One p2p update for each value and stage that needs it. Results of a prediction
    go to every stage.
  }];
  let dependentDialects = ["::mlir::dist::DistDialect"];
}

def Place : Pass<"dist-place", "::mlir::mixle::ProgramOp"> {
  let summary = "Seeds placements from the mesh and lets them flow through the graph.";
  let description = [{
    Rows of data are sharded over the data-parallel axes, named factors of
    parameters over tp. Every op gets `dist.placements`, every argument
    `dist.placement`. A contraction over a sharded factor gives a partial value.
    An accumulator is partial over the data-parallel axes and over those that
    split what its data stands for (the heads that share a norm's gain).
    A program whose ops would need a dimension that the plan splits is an error.
  }];
  let dependentDialects = ["::mlir::dist::DistDialect"];
}

def InsertUpdates : Pass<"dist-insert-updates", "::mlir::mixle::ProgramOp"> {
  let summary = "Makes partial values whole and gathers sharded parameters.";
  let description = [{
    A tree, max or select partial is completed right after the op that made it (a
    partial value never passes through an addition); integer and exact partials
    when they are first read. Parameters sharded over dp_shard are gathered before
    their first use in the forward pass and again in the backward pass.
  }];
  let dependentDialects = ["::mlir::dist::DistDialect"];
}

def VerifyUpdates : Pass<"dist-verify", "::mlir::mixle::ProgramOp"> {
  let summary = "Checks that every partial value is made whole exactly once before use.";
}

def Partition : Pass<"dist-partition", "::mlir::mixle::ProgramOp"> {
  let summary = "Gives every value the shape that one rank holds.";
  let description = [{
    Global types are kept in `dist.global_types` (ops) and `dist.global_type`
    (arguments), so that a reader and `exec-lower` see both.
  }];
}

#endif // DIST_PASSES_TD
