//===- classifier.cpp - A small network, written with the Graph builder ---===//
//
// A two-layer classifier of rows of 13 numbers into 3 classes. Prints the
// program as MLIR: pipe it into mixle-opt, or give it to mixle-compile.
//
//===----------------------------------------------------------------------===//

#include "frontend/cpp/Graph.h"

#include "llvm/Support/raw_ostream.h"

#include <cmath>
#include <vector>

using namespace mixle::frontend;

int main() {
  constexpr int64_t features = 13, hidden = 32, classes = 3;
  try {
    Graph graph("classifier");
    ParameterOptions matrix1, bias1, matrix2, bias2;
    // The hidden layer may be split between ranks, as an MLP's is.
    matrix1.factors = {"", "ffn"};
    matrix2.factors = {"ffn", ""};
    bias1.factors = {"ffn"};
    bias1.decay = bias2.decay = false;
    Tensor w1 = graph.parameter("hidden.weight", {features, hidden},
                                Init::normal(0, 1 / std::sqrt(13.0)), matrix1);
    Tensor b1 =
        graph.parameter("hidden.bias", {hidden}, Init::constant(0), bias1);
    Tensor w2 = graph.parameter("output.weight", {hidden, classes},
                                Init::normal(0, 1 / std::sqrt(32.0)), matrix2);
    Tensor b2 =
        graph.parameter("output.bias", {classes}, Init::constant(0), bias2);

    auto logitsOf = [&](Tensor rows) {
      Tensor layer1 = tanh(matmul(rows, w1) + b1);
      return matmul(layer1, w2) + b2;
    };
    graph.lossEntry(
        {Data::rows({kRows, features}), Data::labels({kRows})},
        [&](llvm::ArrayRef<Tensor> in) -> Loss {
          return {softmaxCrossEntropy(logitsOf(in[0]), in[1]), in[1]};
        });
    graph.entry("predict", {Data::rows({kRows, features})},
                [&](llvm::ArrayRef<Tensor> in) -> std::vector<Output> {
                  return {{logitsOf(in[0]), "logits"}};
                });
    graph.finish().print(llvm::outs());
    llvm::outs() << "\n";
  } catch (const FrontendError &error) {
    llvm::errs() << "classifier: " << error.what() << "\n";
    return 1;
  }
  return 0;
}
