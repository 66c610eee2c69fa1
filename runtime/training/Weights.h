//===- Weights.h - A model's file of tensors, in and out --------*- C++ -*-===//
//
// A safetensors file holds every parameter of a program under its logical id,
// with the shape that the model's own files have, and the program's constants
// (file_constants). Such a file says nothing of plans: any plan reads what any
// other one wrote.
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_RUNTIME_TRAINING_WEIGHTS_H
#define MIXLE_RUNTIME_TRAINING_WEIGHTS_H

#include "mixle/Status.h"
#include "runtime/executor/Executor.h"

#include <string>

namespace mixle::runtime {

/// Reads every parameter from `path` (each rank what it holds) and runs the
/// entry `initialize` first, so optimizer state, units and step start anew.
/// Any floating-point type is converted to the program's. `world` is the group
/// of all ranks, which call this together.
///
/// `path` is a file, an index of several, or a folder with either
/// (WeightFiles.h).
///
/// Accepted besides the parameters: the program's constants, with their values;
/// a tied tensor under its other name, with the same bits (`lm_head.weight` of
/// Hugging Face's models, `head.weight` of mixle's CausalLM); GPT-2's names
/// without "transformer."; and Hugging Face's buffers `h.N.attn.bias`,
/// `h.N.attn.masked_bias` and `model.layers.N.self_attn.rotary_emb.inv_freq`,
/// which are ignored.
///
/// Errors, with nothing changed and `shared` set (see Agreement.h): what
/// SafetensorsFile refuses; a parameter without a tensor; a tensor that is no
/// part of the model; another shape; integers; a value that is not finite, also
/// one too large for the program's precision.
Status loadWeights(RankExecutor &executor, Group &world,
                   const std::string &path, bool *shared = nullptr);

/// Gathers every parameter to rank 0, one after the other, which writes them in
/// the program's order and precision. The file appears whole or not at all.
/// Errors, with `shared` set: what writing the file says.
Status saveWeights(RankExecutor &executor, Group &world,
                   const std::string &path, bool *shared = nullptr);

} // namespace mixle::runtime

#endif // MIXLE_RUNTIME_TRAINING_WEIGHTS_H
