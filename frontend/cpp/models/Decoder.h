//===- Decoder.h - What pre-norm decoders have in common --------*- C++ -*-===//
//
// Token and position embeddings; blocks h += attention(norm h), h += mlp(norm
// h); a last norm; logits by a product with the head. GPT-2 and mixle's
// CausalLM differ in names, in the storage order of weights, in initialisation
// and in a few numbers: those are what this structure holds.
//
// Attention weights are held in views that show the heads, so that a plan can
// split them: their file shapes are the usual matrices.
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_FRONTEND_MODELS_DECODER_H
#define MIXLE_FRONTEND_MODELS_DECODER_H

#include "frontend/cpp/Graph.h"

#include <string>
#include <vector>

namespace mixle::frontend {

/// Largest sizes that a configuration may ask for: ids are 32-bit, and more
/// blocks than this are a slip of the pen.
inline constexpr int64_t kMaximumSize = (int64_t(1) << 31) - 1;
inline constexpr int64_t kMaximumBlocks = 10000;

/// How weight matrices are stored.
enum class WeightLayout {
  InputFirst, ///< [in, out], as Hugging Face's Conv1D
  OutputFirst ///< [out, in], as torch's Linear
};

/// The parameters of one block. With D the width, H heads of Dh, F the hidden
/// width; the first shape is InputFirst, the second OutputFirst.
struct DecoderBlock {
  std::string scope;           ///< for locations, "h.0"
  Tensor norm1Gain, norm1Bias; ///< [D]
  Tensor qkvWeight;            ///< [D,3,H,Dh] | [3,H,Dh,D]
  Tensor qkvBias;              ///< [3,H,Dh]
  Tensor projectionWeight;     ///< [H,Dh,D] | [D,H,Dh]
  Tensor projectionBias;       ///< [D]
  Tensor norm2Gain, norm2Bias; ///< [D]
  Tensor hiddenWeight;         ///< [D,F] | [F,D]
  Tensor hiddenBias;           ///< [F]
  Tensor outputWeight;         ///< [F,D] | [D,F]
  Tensor outputBias;           ///< [D]
  double attentionScale = 1;   ///< scores are scale * q k
};

struct Decoder {
  WeightLayout layout = WeightLayout::InputFirst;
  double epsilon = 1e-5;
  bool tanhGelu = false;
  Tensor tokenEmbedding;    ///< [V, D]
  Tensor positionEmbedding; ///< [P, D]
  std::vector<DecoderBlock> blocks;
  Tensor normGain, normBias; ///< [D]
  Tensor head;               ///< [V, D]; the token embedding when tied
};

/// Logits [rows, sequence, V] of token ids [rows, sequence].
Tensor decoderLogits(const Decoder &decoder, Tensor tokens);

/// Builds entry @loss (the sum of next-token losses, labels -100 ignored) and
/// entry @predict (logits) for rows of `sequence` tokens, and records
/// `sequence` and `vocabulary` in the program's config.
void buildDecoderEntries(Graph &graph, const Decoder &decoder,
                         int64_t sequence);

/// The same for any model that turns token ids [rows, sequence] into logits
/// [rows, sequence, vocabulary].
void buildLanguageEntries(Graph &graph, int64_t sequence, int64_t vocabulary,
                          llvm::function_ref<Tensor(Tensor)> logits);

/// Checks 1 <= sequence <= maximum, or takes the maximum when none is given.
/// Errors name `key`, the configuration's name of the maximum.
int64_t checkedSequence(std::optional<int64_t> sequence, int64_t maximum,
                        llvm::StringRef key);

/// Options of a parameter without weight decay (norms and biases).
ParameterOptions withoutDecay(std::vector<std::string> factors = {},
                              std::optional<Shape> fileShape = std::nullopt);
/// Options of a matrix or embedding.
ParameterOptions withDecay(std::vector<std::string> factors,
                           std::optional<Shape> fileShape = std::nullopt);

} // namespace mixle::frontend

#endif // MIXLE_FRONTEND_MODELS_DECODER_H
