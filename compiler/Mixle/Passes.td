//===- Passes.td - Graph-phase passes ----------------------*- tablegen -*-===//

#ifndef MIXLE_PASSES_TD
#define MIXLE_PASSES_TD

include "mlir/Pass/PassBase.td"

def Differentiate : Pass<"mixle-differentiate", "::mlir::mixle::ProgramOp"> {
  let summary = "Builds @gradients from @loss by reverse-mode differentiation.";
  let description = [{
    Before: `mixle.entry @loss(data..., loss, count, parameters...) -> (loss, count)`.
    After: also `mixle.entry @gradients` with the same arguments, the same two
    results, and one result of role `gradient` for every trained parameter. The
    cotangent of the summed loss is one per token. Cotangents of a value used
    several times add left to right in reverse program order. Parameters that the
    mathematics packs (a concat of them) are packed again in the backward pass
    rather than kept from the forward pass.
  }];
}

def Decompose : Pass<"mixle-decompose", "::mlir::mixle::ProgramOp"> {
  let summary = "Splits composites over a row into parts that a plan can split.";
  let description = [{
    softmax_cross_entropy becomes row_max, row_sum_exp, select_label and
    cross_entropy; logsumexp becomes row_max, row_sum_exp and log_add. Equal
    row_max and row_sum_exp ops of the forward and backward pass merge.
  }];
}

def FormAccumulators : Pass<"mixle-form-accumulators", "::mlir::mixle::ProgramOp"> {
  let summary = "Turns @gradients into @accumulate: sums over data become integer accumulators.";
  let description = [{
    Every parameter's gradient is a chain of additions of sums over the data:
    dot_general over data dimensions, reduce over data dimensions, scatter_add.
    Each becomes an accumulate op into the parameter's one accumulator, which is
    an argument and a result of @accumulate. A gradient that is no sum over data is
    an error that names the parameter and the op.

    A part of a sum over data is the sum of the part: a slice along a dimension
    that is not summed moves to the operands, so that parameters packed into one
    product keep an accumulator each.
  }];
}

def AssignGranules : Pass<"mixle-assign-granules", "::mlir::mixle::ProgramOp"> {
  let summary = "Names dimensions by factors and gives contractions their granules.";
  let description = [{
    Factor names flow from parameters through placement rules. A contraction over
    a named factor gets `granules` and `granule_size` from the program's granules;
    accumulate_dot gets its token block. Missing entries are completed from the
    graph alone: tokens = the largest power of two up to 128 that leaves two
    blocks in a sequence; heads (or ffn, vocabulary) = the number of heads, or of
    groups of heads that share a key, at least 8 for the vocabulary; sequence = 1.
  }];
}

def AttachOptimizer : Pass<"mixle-attach-optimizer", "::mlir::mixle::ProgramOp"> {
  let summary = "Builds @step (resolve, clip, optimizer) and renames @loss to @evaluate.";
  let description = [{
    @step takes the accumulators, parameters and optimizer state and returns their
    successors. The optimizer comes from the program's `config`: optimizer
    (sgd, adam, adamw), lr, momentum, beta1, beta2, eps, weight_decay, decay
    (default, all), max_grad_norm, lr_schedule.
  }];
}

#endif // MIXLE_PASSES_TD
