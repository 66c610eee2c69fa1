//===- Decoder.cpp - What pre-norm decoders have in common ----------------===//

#include "frontend/cpp/models/Decoder.h"

using namespace llvm;

namespace mixle::frontend {

ParameterOptions withoutDecay(std::vector<std::string> factors,
                              std::optional<Shape> fileShape) {
  ParameterOptions options;
  options.factors = std::move(factors);
  options.fileShape = std::move(fileShape);
  options.decay = false;
  return options;
}

ParameterOptions withDecay(std::vector<std::string> factors,
                           std::optional<Shape> fileShape) {
  ParameterOptions options =
      withoutDecay(std::move(factors), std::move(fileShape));
  options.decay = true;
  return options;
}

int64_t checkedSequence(std::optional<int64_t> sequence, int64_t maximum,
                        StringRef key) {
  int64_t length = sequence.value_or(maximum);
  if (length < 1 || length > maximum)
    throw FrontendError(("sequence " + Twine(length) +
                         " must be from 1 to the model's " + key + ", " +
                         Twine(maximum))
                            .str());
  return length;
}

static Tensor attentionOf(const Decoder &decoder, const DecoderBlock &block,
                          Tensor input) {
  bool inputFirst = decoder.layout == WeightLayout::InputFirst;
  // [rows, T, D] -> [rows, T, 3, H, Dh]
  Tensor qkv = inputFirst ? matmul(input, block.qkvWeight)
                          : matmulTransposed(input, block.qkvWeight);
  qkv = qkv + block.qkvBias;
  Tensor context = attention(qkv, block.attentionScale, /*causal=*/true);
  Tensor projected =
      inputFirst ? dotGeneral(context, block.projectionWeight, {2, 3}, {0, 1})
                 : dotGeneral(context, block.projectionWeight, {2, 3}, {1, 2});
  return projected + block.projectionBias;
}

static Tensor mlpOf(const Decoder &decoder, const DecoderBlock &block,
                    Tensor input) {
  auto linear = [&](Tensor x, Tensor weight, Tensor bias) {
    return (decoder.layout == WeightLayout::InputFirst
                ? matmul(x, weight)
                : matmulTransposed(x, weight)) +
           bias;
  };
  Tensor hidden = linear(input, block.hiddenWeight, block.hiddenBias);
  return linear(gelu(hidden, decoder.tanhGelu), block.outputWeight,
                block.outputBias);
}

Tensor decoderLogits(const Decoder &decoder, Tensor tokens) {
  Graph &graph = tokens.graph();
  Tensor hidden;
  {
    Graph::Scope scope(graph, "embedding");
    // Positions are ids like tokens, so that the gradient of their table is
    // the same scatter.
    Tensor positions = broadcastLike(iota(graph, {tokens.dim(1)}, 0), tokens);
    hidden = embedding(decoder.tokenEmbedding, tokens) +
             embedding(decoder.positionEmbedding, positions);
  }
  for (const DecoderBlock &block : decoder.blocks) {
    Graph::Scope scope(graph, block.scope);
    {
      Graph::Scope inner(graph, "attn");
      hidden =
          hidden + attentionOf(decoder, block,
                               layerNorm(hidden, block.norm1Gain,
                                         block.norm1Bias, decoder.epsilon));
    }
    Graph::Scope inner(graph, "mlp");
    hidden = hidden + mlpOf(decoder, block,
                            layerNorm(hidden, block.norm2Gain, block.norm2Bias,
                                      decoder.epsilon));
  }
  Graph::Scope scope(graph, "head");
  return matmulTransposed(
      layerNorm(hidden, decoder.normGain, decoder.normBias, decoder.epsilon),
      decoder.head);
}

void buildDecoderEntries(Graph &graph, const Decoder &decoder,
                         int64_t sequence) {
  buildLanguageEntries(
      graph, sequence, decoder.tokenEmbedding.dim(0),
      [&](Tensor tokens) { return decoderLogits(decoder, tokens); });
}

void buildLanguageEntries(Graph &graph, int64_t sequence, int64_t vocabulary,
                          function_ref<Tensor(Tensor)> logits) {
  graph.config("sequence", sequence);
  graph.config("vocabulary", vocabulary);
  graph.lossEntry(
      {Data::tokens({kRows, sequence}), Data::labels({kRows, sequence})},
      [&](ArrayRef<Tensor> in) -> Loss {
        return {softmaxCrossEntropy(logits(in[0]), in[1]), in[1]};
      });
  graph.entry("predict", {Data::tokens({kRows, sequence})},
              [&](ArrayRef<Tensor> in) -> std::vector<Output> {
                return {{logits(in[0]), "logits"}};
              });
}

} // namespace mixle::frontend
