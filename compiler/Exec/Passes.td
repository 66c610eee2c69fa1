//===- Passes.td - Passes to and on the exec dialect -------*- tablegen -*-===//

#ifndef EXEC_PASSES_TD
#define EXEC_PASSES_TD

include "mlir/Pass/PassBase.td"

def Lower : Pass<"exec-lower", "::mlir::ModuleOp"> {
  let summary = "Turns a partitioned program into commands on buffers.";
  let description = [{
    Pointwise ops fuse into kernels, contractions and accumulations become library
    calls, updates become collectives. What depends on values becomes `retry` and
    `commit_if`. The mixle.program is replaced by an exec.program.
  }];
  let dependentDialects = ["::mlir::exec::ExecDialect"];
}

def PlanMemory : Pass<"exec-plan-memory", "::mlir::exec::ProgramOp"> {
  let summary = "Gives every buffer its offset; scratch buffers share by lifetime.";
}

def VerifyRanks : Pass<"exec-verify-ranks", "::mlir::exec::ProgramOp"> {
  let summary = "Checks that no buffer is read before it is written or while it is overwritten.";
  let description = [{
    All ranks run one body, so collectives match in kind, size, group and order by
    construction; what is checked is that none stands where ranks could differ
    (inside a retry), that scratch buffers alive together do not overlap, that
    every scratch buffer is written before it is read, and that each update is
    carried out by one command at least.
  }];
}

def VerifyClasses : Pass<"exec-verify-classes", "::mlir::ModuleOp"> {
  let summary = "Checks that the rank classes of a pipeline agree with each other.";
  let description = [{
    Lets one rank of each class run every entry: sends and receives match in size,
    type, microbatch and order, collectives over pp in kind, size, group and order,
    and nobody waits forever. Fails naming stages, commands and updates.
  }];
}

#endif // EXEC_PASSES_TD
