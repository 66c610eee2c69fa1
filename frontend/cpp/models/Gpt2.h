//===- Gpt2.h - GPT-2 as Hugging Face defines it ----------------*- C++ -*-===//
//
// GPT2LMHeadModel with its configuration keys, tensor names, storage order and
// initialisation: a checkpoint of one is a checkpoint of the other.
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_FRONTEND_MODELS_GPT2_H
#define MIXLE_FRONTEND_MODELS_GPT2_H

#include "frontend/cpp/Graph.h"
#include "frontend/cpp/models/Decoder.h"

namespace mixle::frontend {

class ConfigReader;

/// The keys of GPT2Config that this model executes, with their defaults.
struct Gpt2Config {
  int64_t vocabularySize = 50257; ///< vocab_size
  int64_t positions = 1024;       ///< n_positions
  int64_t width = 768;            ///< n_embd
  int64_t blocks = 12;            ///< n_layer
  int64_t heads = 12;             ///< n_head; divides n_embd
  int64_t hidden = 0;             ///< n_inner; 0: 4 * n_embd
  double epsilon = 1e-5;          ///< layer_norm_epsilon
  double initializerRange = 0.02; ///< initializer_range
  bool tanhGelu = true;           ///< activation_function gelu_new, or gelu
  bool scaleAttention = true;     ///< scale_attn_weights
  bool scaleByLayer = false;      ///< scale_attn_by_inverse_layer_idx
  bool tied = true;               ///< tie_word_embeddings

  int64_t hiddenWidth() const { return hidden ? hidden : 4 * width; }
};

/// Reads a Hugging Face configuration. Errors (FrontendError): a value that is
/// no size, n_embd that n_head does not divide, an activation other than
/// gelu_new, gelu_pytorch_tanh and gelu, dropout (resid_pdrop, embd_pdrop,
/// attn_pdrop) that is not 0 — an absent key means Hugging Face's 0.1 —,
/// reorder_and_upcast_attn, cross attention, and any key that is not known.
Gpt2Config readGpt2Config(ConfigReader &reader);

/// Declares the parameters of GPT-2 in `graph`.
Decoder declareGpt2(Graph &graph, const Gpt2Config &config);

/// Parameters, entries @loss and @predict, and the program's config. `sequence`
/// is at most n_positions, which it is when not given.
void buildGpt2(Graph &graph, const Gpt2Config &config,
               std::optional<int64_t> sequence);

} // namespace mixle::frontend

#endif // MIXLE_FRONTEND_MODELS_GPT2_H
