//===- Llama.h - Llama and its relatives as Hugging Face defines them -----===//
//
// LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM and Qwen3ForCausalLM,
// with their configuration keys, tensor names, storage order and
// initialisation: pre-norm decoders with RMSNorm, rotary positions,
// grouped-query attention and a gated MLP. They differ in biases and in the
// norms of queries and keys.
//
// The files keep q, k, v and gate, up apart; the program multiplies by their
// concatenations, so that what flows back through them is one contraction.
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_FRONTEND_MODELS_LLAMA_H
#define MIXLE_FRONTEND_MODELS_LLAMA_H

#include "frontend/cpp/Graph.h"
#include "frontend/cpp/models/Rope.h"

namespace mixle::frontend {

class ConfigReader;

/// The keys that these models execute, with LlamaConfig's defaults.
struct LlamaConfig {
  std::string type = "llama";      ///< model_type
  int64_t vocabularySize = 32000;  ///< vocab_size
  int64_t width = 4096;            ///< hidden_size
  int64_t hidden = 11008;          ///< intermediate_size
  int64_t blocks = 32;             ///< num_hidden_layers
  int64_t heads = 32;              ///< num_attention_heads
  int64_t kvHeads = 32;            ///< num_key_value_heads; divides heads
  int64_t headDim = 128;           ///< head_dim; even
  int64_t positions = 2048;        ///< max_position_embeddings
  std::optional<int64_t> window;   ///< sliding_window of some layer
  std::optional<int64_t> padding;  ///< pad_token_id: its row does not learn
  double epsilon = 1e-6;           ///< rms_norm_eps
  double initializerRange = 0.02;  ///< initializer_range
  std::string activation = "silu"; ///< hidden_act
  bool tied = false;               ///< tie_word_embeddings
  bool qkvBias = false;            ///< attention_bias; qwen2: always
  bool outputBias = false;         ///< attention_bias
  bool mlpBias = false;            ///< mlp_bias
  bool headNorms = false;          ///< qwen3: q_norm and k_norm
  RopeConfig rope;
};

/// Reads the configuration of a model of `type`: llama, mistral, qwen2 or
/// qwen3. Errors (FrontendError): sizes that do not fit, an activation other
/// than silu, gelu, gelu_new and gelu_pytorch_tanh, dropout that is not 0,
/// pretraining_tp other than 1, rotary scaling that is not executed (Rope.h),
/// and any key that is not known.
LlamaConfig readLlamaConfig(ConfigReader &reader, const std::string &type);

/// Parameters, entries @loss and @predict, and the program's config. `sequence`
/// is at most max_position_embeddings, which it is when not given. Errors: a
/// sequence that is longer than a sliding window, which would hide keys.
void buildLlama(Graph &graph, const LlamaConfig &config,
                std::optional<int64_t> sequence);

} // namespace mixle::frontend

#endif // MIXLE_FRONTEND_MODELS_LLAMA_H
