//===- CausalLm.h - mixle's CausalLM ----------------------------*- C++ -*-===//
//
// The decoder of the mixle library, with its argument names, tensor names,
// storage order and initialisation (torch's defaults: because the tied head is
// an N(0,1) embedding, losses of 8 to 20 nats at the start are as they should
// be).
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_FRONTEND_MODELS_CAUSALLM_H
#define MIXLE_FRONTEND_MODELS_CAUSALLM_H

#include "frontend/cpp/Graph.h"
#include "frontend/cpp/models/Decoder.h"

namespace mixle::frontend {

class ConfigReader;

/// The arguments of build_causal_lm, with its defaults.
struct CausalLmConfig {
  int64_t vocabulary = 0; ///< vocab; required
  int64_t width = 128;    ///< d_model
  int64_t blocks = 3;     ///< n_layer
  int64_t heads = 4;      ///< n_head; divides d_model
  int64_t block = 64;     ///< block: the longest sequence
};

/// Reads a configuration {"model_type": "mixle_causal_lm", "vocab": ...}.
/// Errors (FrontendError): a size that is no positive integer, d_model that
/// n_head does not divide, an `embedding` that is not null,
/// `gradient_checkpointing` (not executed), and any key that is not known.
CausalLmConfig readCausalLmConfig(ConfigReader &reader);

/// Declares the parameters of the model in `graph`.
Decoder declareCausalLm(Graph &graph, const CausalLmConfig &config);

/// Parameters, entries @loss and @predict, and the program's config. The
/// library's files also hold `mup_output_multiplier`, a scalar 1 that
/// multiplies the logits: it is a file constant here. `sequence` is at most
/// `block`, which it is when not given.
void buildCausalLm(Graph &graph, const CausalLmConfig &config,
                   std::optional<int64_t> sequence);

} // namespace mixle::frontend

#endif // MIXLE_FRONTEND_MODELS_CAUSALLM_H
