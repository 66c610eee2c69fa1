//===- OpCases.cpp - One list of small examples of every op ---------------===//

#include "OpCases.h"

using namespace mlir;
using namespace mlir::mixle;
using namespace mlir::mixle::reference;

/// Pointwise ops of one and two operands.
static void addPointwiseCases(std::vector<OpCase> &cases) {
  const char *t = "tensor<2x3xf64>";
  auto unary = [&](const char *name, double low, double high) {
    cases.push_back({name, std::string("%a: ") + t,
                     std::string("%r = mixle.") + name + " %a : " + t, low,
                     high});
  };
  for (const char *name : {"neg", "exp", "tanh", "erf", "sin", "cos", "abs", "silu"})
    unary(name, -1.5, 1.5);
  unary("log", 0.5, 2.5);
  unary("sqrt", 0.5, 2.5);
  for (const char *form : {"none", "tanh"}) {
    std::string attribute =
        std::string(" {approximate = \"") + form + "\"} : " + t;
    cases.push_back({std::string("gelu_") + form, std::string("%a: ") + t,
                     "%r = mixle.gelu %a" + attribute, -3, 3});
    cases.push_back({std::string("gelu_grad_") + form,
                     std::string("%a: ") + t + ", %c: " + t,
                     "%r = mixle.gelu_grad %a, %c" + attribute, -3, 3});
  }
  for (const char *name : {"add", "sub", "mul", "max", "min"})
    cases.push_back({name, std::string("%a: ") + t + ", %b: " + t,
                     std::string("%r = mixle.") + name + " %a, %b : " + t});
  cases.push_back({"div", std::string("%a: ") + t + ", %b: " + t,
                   std::string("%r = mixle.div %a, %b : ") + t, 0.5, 2.5});
  cases.push_back({"compare", std::string("%a: ") + t + ", %b: " + t,
                   std::string("%r = mixle.compare \"le\" %a, %b : ") + t +
                       " -> tensor<2x3xi1>"});
  cases.push_back(
      {"select", std::string("%c: tensor<2x3xi1>, %a: ") + t + ", %b: " + t,
       std::string("%r = mixle.select %c, %a, %b : tensor<2x3xi1>, ") + t});
  cases.push_back({"convert_float", std::string("%a: ") + t,
                   std::string("%r = mixle.convert %a : ") + t +
                       " -> tensor<2x3xf32>"});
  cases.push_back({"convert_integer", "%a: tensor<2x3xi32>",
                   "%r = mixle.convert %a : tensor<2x3xi32> -> tensor<2x3xf64>"});
}

static void addShapeCases(std::vector<OpCase> &cases) {
  cases.push_back({"constant", "",
                   "%r = mixle.constant dense<[1.0, 2.0]> : tensor<2xf64>"});
  cases.push_back({"iota", "", "%r = mixle.iota {dimension = 1 : i64} : tensor<2x3xi32>"});
  cases.push_back({"broadcast_scalar", "%a: tensor<f64>, %l: tensor<2x3xf64>",
                   "%r = mixle.broadcast %a like %l dims = [] : tensor<f64>, "
                   "tensor<2x3xf64> -> tensor<2x3xf64>"});
  cases.push_back({"broadcast_middle", "%a: tensor<3xf64>, %l: tensor<2x3x4xf64>",
                   "%r = mixle.broadcast %a like %l dims = [1] : tensor<3xf64>, "
                   "tensor<2x3x4xf64> -> tensor<2x3x4xf64>"});
  cases.push_back({"broadcast_outer", "%a: tensor<2x4xf64>, %l: tensor<2x3x4xf64>",
                   "%r = mixle.broadcast %a like %l dims = [0, 2] : "
                   "tensor<2x4xf64>, tensor<2x3x4xf64> -> tensor<2x3x4xf64>"});
  auto reshape = [&](const char *name, const char *from, const char *to) {
    cases.push_back({name, std::string("%a: ") + from,
                     std::string("%r = mixle.reshape %a : ") + from + " -> " + to});
  };
  reshape("reshape_split", "tensor<2x12xf64>", "tensor<2x4x3xf64>");
  reshape("reshape_join", "tensor<2x4x3xf64>", "tensor<2x12xf64>");
  reshape("reshape_both", "tensor<6x4x5xf64>", "tensor<4x6x5xf64>");
  reshape("reshape_ones", "tensor<1x6xf64>", "tensor<6x1xf64>");
  reshape("reshape_ones_inside", "tensor<2x1x4xf64>", "tensor<1x2x4x1xf64>");
  reshape("reshape_scalar", "tensor<1x1xf64>", "tensor<f64>");
  reshape("reshape_late", "tensor<2x3x4xf64>", "tensor<2x2x6xf64>");
  cases.push_back({"transpose", "%a: tensor<2x3x4xf64>",
                   "%r = mixle.transpose %a perm = [2, 0, 1] : "
                   "tensor<2x3x4xf64> -> tensor<4x2x3xf64>"});
  cases.push_back({"slice", "%a: tensor<2x5x3xf64>",
                   "%r = mixle.slice %a[1 : 1, 4] : tensor<2x5x3xf64> -> "
                   "tensor<2x3x3xf64>"});
  cases.push_back({"pad", "%a: tensor<2x3x2xf64>",
                   "%r = mixle.pad %a[1 : 2, 1] : tensor<2x3x2xf64> -> "
                   "tensor<2x6x2xf64>"});
  cases.push_back({"concat",
                   "%a: tensor<2x1x3xf64>, %b: tensor<2x2x3xf64>, %c: tensor<2x4x3xf64>",
                   "%r = mixle.concat %a, %b, %c dim = 1 : tensor<2x1x3xf64>, "
                   "tensor<2x2x3xf64>, tensor<2x4x3xf64> -> tensor<2x7x3xf64>"});
  cases.push_back({"concat_one", "%a: tensor<2x3xf64>",
                   "%r = mixle.concat %a dim = 0 : tensor<2x3xf64> -> tensor<2x3xf64>"});
}

/// Contractions: batch dimensions anywhere, contracted orders that differ
/// between the operands, several contracted dimensions, granules.
static void addContractionCases(std::vector<OpCase> &cases) {
  auto dot = [&](const char *name, const char *lhs, const char *rhs,
                 const char *contract, const char *attributes,
                 const char *result) {
    cases.push_back({name, std::string("%a: ") + lhs + ", %b: " + rhs,
                     std::string("%r = mixle.dot_general %a, %b contract = ") +
                         contract + " " + attributes + " : " + lhs + ", " +
                         rhs + " -> " + result});
  };
  dot("dot_plain", "tensor<2x3xf64>", "tensor<3x4xf64>", "[1] x [0]", "",
      "tensor<2x4xf64>");
  dot("dot_transposed_rhs", "tensor<2x3xf64>", "tensor<4x3xf64>", "[1] x [1]",
      "", "tensor<2x4xf64>");
  dot("dot_transposed_lhs", "tensor<3x2xf64>", "tensor<3x4xf64>", "[0] x [0]",
      "", "tensor<2x4xf64>");
  dot("dot_batch", "tensor<2x3x4xf64>", "tensor<2x4x5xf64>", "[2] x [1]",
      "{lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>}",
      "tensor<2x3x5xf64>");
  dot("dot_batch_inside", "tensor<3x2x4xf64>", "tensor<5x4x2xf64>", "[2] x [1]",
      "{lhs_batch = array<i64: 1>, rhs_batch = array<i64: 2>}",
      "tensor<2x3x5xf64>");
  dot("dot_two_batches", "tensor<2x3x4x2xf64>", "tensor<3x2x2x5xf64>", "[3] x [2]",
      "{lhs_batch = array<i64: 1, 0>, rhs_batch = array<i64: 0, 1>}",
      "tensor<3x2x4x5xf64>");
  dot("dot_two_contracted", "tensor<2x3x4xf64>", "tensor<4x3x5xf64>",
      "[1, 2] x [1, 0]", "", "tensor<2x5xf64>");
  dot("dot_two_contracted_apart", "tensor<3x2x4xf64>", "tensor<4x5x3x2xf64>",
      "[2, 0] x [0, 2]", "", "tensor<2x5x2xf64>");
  dot("dot_all_contracted", "tensor<2x3xf64>", "tensor<3x2xf64>", "[0, 1] x [1, 0]",
      "", "tensor<f64>");
  dot("dot_outer", "tensor<2xf64>", "tensor<3xf64>", "[] x []", "",
      "tensor<2x3xf64>");
  dot("dot_granules", "tensor<2x8xf64>", "tensor<8x3xf64>", "[1] x [0]",
      "{granule_dim = 0 : i64, granules = 4 : i64, granule_size = 2 : i64}",
      "tensor<2x3xf64>");
  dot("dot_granules_second", "tensor<2x3x5xf64>", "tensor<3x5x2xf64>",
      "[1, 2] x [0, 1]",
      "{granule_dim = 1 : i64, granules = 3 : i64, granule_size = 2 : i64}",
      "tensor<2x2xf64>");
  auto reduce = [&](const char *kind, const char *name, const char *dims,
                    const char *result) {
    cases.push_back({std::string("reduce_") + kind + name, "%a: tensor<2x3x4xf64>",
                     std::string("%r = mixle.reduce \"") + kind +
                         "\" %a dims = " + dims +
                         " : tensor<2x3x4xf64> -> " + result});
  };
  for (const char *kind : {"sum", "max"}) {
    reduce(kind, "_last", "[2]", "tensor<2x3xf64>");
    reduce(kind, "_two", "[0, 2]", "tensor<3xf64>");
    reduce(kind, "_all", "[0, 1, 2]", "tensor<f64>");
    reduce(kind, "_none", "[]", "tensor<2x3x4xf64>");
  }
  cases.push_back({"embedding", "%t: tensor<5x3xf64>, %i: tensor<2x4xi32>",
                   "%r = mixle.embedding %t, %i : tensor<5x3xf64>, "
                   "tensor<2x4xi32> -> tensor<2x4x3xf64>",
                   -1.5, 1.5, 0, 5});
  cases.push_back({"embedding_outside", "%t: tensor<4xf64>, %i: tensor<6xi64>",
                   "%r = mixle.embedding %t, %i : tensor<4xf64>, tensor<6xi64> "
                   "-> tensor<6xf64>",
                   -1.5, 1.5, -1, 6});
  cases.push_back({"scatter_add", "%i: tensor<2x4xi32>, %u: tensor<2x4x3xf64>",
                   "%r = mixle.scatter_add %i, %u rows = 5 : tensor<2x4xi32>, "
                   "tensor<2x4x3xf64> -> tensor<5x3xf64>",
                   -1.5, 1.5, -1, 6});
}

static void addCompositeCases(std::vector<OpCase> &cases) {
  cases.push_back({"layer_norm",
                   "%x: tensor<2x3x4xf64>, %g: tensor<4xf64>, %b: tensor<4xf64>",
                   "%r:3 = mixle.layer_norm %x, %g, %b eps = 1.0e-05 : "
                   "(tensor<2x3x4xf64>, tensor<4xf64>, tensor<4xf64>) -> "
                   "(tensor<2x3x4xf64>, tensor<2x3xf64>, tensor<2x3xf64>)"});
  cases.push_back({"layer_norm_grad",
                   "%x: tensor<2x3x4xf64>, %g: tensor<4xf64>, %m: tensor<2x3xf64>, "
                   "%s: tensor<2x3xf64>, %c: tensor<2x3x4xf64>",
                   "%r:2 = mixle.layer_norm_grad %x, %g, %m, %s, %c : "
                   "(tensor<2x3x4xf64>, tensor<4xf64>, tensor<2x3xf64>, "
                   "tensor<2x3xf64>, tensor<2x3x4xf64>) -> "
                   "(tensor<2x3x4xf64>, tensor<2x3x4xf64>)"});
  cases.push_back({"rms_norm", "%x: tensor<2x3x4xf64>, %g: tensor<4xf64>",
                   "%r:2 = mixle.rms_norm %x, %g eps = 0.01 : "
                   "(tensor<2x3x4xf64>, tensor<4xf64>) -> "
                   "(tensor<2x3x4xf64>, tensor<2x3xf64>)"});
  cases.push_back({"rms_norm_grad",
                   "%x: tensor<2x3x4xf64>, %g: tensor<4xf64>, %s: tensor<2x3xf64>, "
                   "%c: tensor<2x3x4xf64>",
                   "%r:2 = mixle.rms_norm_grad %x, %g, %s, %c : "
                   "(tensor<2x3x4xf64>, tensor<4xf64>, tensor<2x3xf64>, "
                   "tensor<2x3x4xf64>) -> (tensor<2x3x4xf64>, tensor<2x3x4xf64>)"});
  for (const char *causal : {"true", "false"}) {
    std::string attributes =
        std::string(" scale = 0.7 causal = ") + causal + " {key_granules = 2 : i64} : ";
    cases.push_back({std::string("attention_causal_") + causal,
                     "%q: tensor<2x4x3x2x3xf64>",
                     "%r:3 = mixle.attention %q" + attributes +
                         "(tensor<2x4x3x2x3xf64>) -> (tensor<2x4x2x3xf64>, "
                         "tensor<2x2x4xi32>, tensor<2x2x4xf64>)"});
    cases.push_back({std::string("attention_grad_causal_") + causal,
                     "%q: tensor<2x4x3x2x3xf64>, %o: tensor<2x4x2x3xf64>, "
                     "%m: tensor<2x2x4xi32>, %l: tensor<2x2x4xf64>, "
                     "%c: tensor<2x4x2x3xf64>",
                     "%r = mixle.attention_grad %q, %o, %m, %l, %c" + attributes +
                         "(tensor<2x4x3x2x3xf64>, tensor<2x4x2x3xf64>, "
                         "tensor<2x2x4xi32>, tensor<2x2x4xf64>, "
                         "tensor<2x4x2x3xf64>) -> tensor<2x4x3x2x3xf64>"});
  }
}

static void addGroupedCases(std::vector<OpCase> &cases) {
  // Three groups of two queries that share a key, tokens in two granules.
  for (const char *causal : {"true", "false"}) {
    std::string attributes = std::string(" scale = 0.7 causal = ") + causal +
                             " {grouped, key_granules = 2 : i64} : ";
    const std::string qkv = "tensor<2x4x3x4x2xf64>", out = "tensor<2x4x3x2x2xf64>",
                      m = "tensor<2x3x2x4xi32>", l = "tensor<2x3x2x4xf64>";
    cases.push_back({std::string("grouped_attention_causal_") + causal, "%q: " + qkv,
                     "%r:3 = mixle.attention %q" + attributes + "(" + qkv +
                         ") -> (" + out + ", " + m + ", " + l + ")"});
    cases.push_back({std::string("grouped_attention_grad_causal_") + causal,
                     "%q: " + qkv + ", %o: " + out + ", %m: " + m + ", %l: " + l +
                         ", %c: " + out,
                     "%r = mixle.attention_grad %q, %o, %m, %l, %c" + attributes +
                         "(" + qkv + ", " + out + ", " + m + ", " + l + ", " +
                         out + ") -> " + qkv});
  }
  auto rotary = [&](const char *name, const char *input, const char *attributes) {
    cases.push_back({name,
                     std::string("%x: ") + input +
                         ", %c: tensor<3x2xf64>, %s: tensor<3x2xf64>",
                     std::string("%r = mixle.rotary %x, %c, %s ") + attributes +
                         " : (" + input + ", tensor<3x2xf64>, tensor<3x2xf64>) -> " +
                         input});
  };
  rotary("rotary_heads", "tensor<2x3x2x4xf64>", "");
  rotary("rotary_tokens", "tensor<2x3x4xf64>", "{inverse}");
  rotary("rotary_part", "tensor<2x3x2x3x4xf64>", "{rotated = 2 : i64}");
  rotary("rotary_part_back", "tensor<2x3x2x3x4xf64>", "{inverse, rotated = 2 : i64}");
  rotary("rotary_none", "tensor<2x3x2x4xf64>", "{rotated = 0 : i64}");
}

static void addLossCases(std::vector<OpCase> &cases) {
  OpCase loss{"softmax_cross_entropy", "%x: tensor<2x3x5xf64>, %y: tensor<2x3xi32>",
              "%r = mixle.softmax_cross_entropy %x, %y : (tensor<2x3x5xf64>, "
              "tensor<2x3xi32>) -> tensor<2x3xf64>",
              -3, 3, 0, 5};
  cases.push_back(loss);
  loss.name = "softmax_cross_entropy_ignored";
  loss.ignored = true;
  cases.push_back(loss);
  auto row = [&](const char *name) {
    cases.push_back({name, "%x: tensor<2x3x5xf64>",
                     std::string("%r = mixle.") + name +
                         " %x : (tensor<2x3x5xf64>) -> tensor<2x3xf64>",
                     -3, 3});
  };
  row("logsumexp");
  row("row_max");
  const char *sum = "(tensor<2x3x5xf64>, tensor<2x3xf64>) -> tensor<2x3xf64>";
  cases.push_back({"row_sum_exp", "%x: tensor<2x3x5xf64>, %m: tensor<2x3xf64>",
                   std::string("%r = mixle.row_sum_exp %x, %m : ") + sum});
  cases.push_back({"row_sum_exp_granules",
                   "%x: tensor<2x3x5xf64>, %m: tensor<2x3xf64>",
                   std::string("%r = mixle.row_sum_exp %x, %m {granules = 3 : i64, "
                               "granule_size = 2 : i64} : ") +
                       sum});
  cases.push_back({"row_granule_sums",
                   "%x: tensor<2x3x5xf64>, %m: tensor<2x3xf64>",
                   "%r = mixle.row_granule_sums %x, %m {granules = 4 : i64, "
                   "granule_size = 2 : i64} : (tensor<2x3x5xf64>, tensor<2x3xf64>) "
                   "-> tensor<2x3x4xf64>"});
  OpCase select{"select_label", "%x: tensor<2x3x5xf64>, %y: tensor<2x3xi32>",
                "%r = mixle.select_label %x, %y : (tensor<2x3x5xf64>, "
                "tensor<2x3xi32>) -> tensor<2x3xf64>",
                -3, 3, 0, 5};
  select.ignored = true;
  cases.push_back(select);
  OpCase entropy{"cross_entropy",
                 "%m: tensor<2x3xf64>, %s: tensor<2x3xf64>, %t: tensor<2x3xf64>, "
                 "%y: tensor<2x3xi32>",
                 "%r = mixle.cross_entropy %m, %s, %t, %y : tensor<2x3xf64>, "
                 "tensor<2x3xi32>",
                 0.5, 3};
  entropy.ignored = true;
  cases.push_back(entropy);
  cases.push_back({"log_add", "%m: tensor<2x3xf64>, %s: tensor<2x3xf64>",
                   "%r = mixle.log_add %m, %s : tensor<2x3xf64>", 0.5, 3});
  OpCase grad{"softmax_cross_entropy_grad",
              "%x: tensor<2x3x5xf64>, %y: tensor<2x3xi32>, %m: tensor<2x3xf64>, "
              "%s: tensor<2x3xf64>, %c: tensor<2x3xf64>",
              "%r = mixle.softmax_cross_entropy_grad %x, %y, %m, %s, %c : "
              "(tensor<2x3x5xf64>, tensor<2x3xi32>, tensor<2x3xf64>, "
              "tensor<2x3xf64>, tensor<2x3xf64>) -> tensor<2x3x5xf64>",
              0.5, 3, 0, 5};
  grad.ignored = true;
  cases.push_back(grad);
  cases.push_back({"softmax_scale",
                   "%x: tensor<2x3x5xf64>, %m: tensor<2x3xf64>, "
                   "%s: tensor<2x3xf64>, %c: tensor<2x3xf64>",
                   "%r = mixle.softmax_scale %x, %m, %s, %c : (tensor<2x3x5xf64>, "
                   "tensor<2x3xf64>, tensor<2x3xf64>, tensor<2x3xf64>) -> "
                   "tensor<2x3x5xf64>",
                   0.5, 3});
}

static void addSumCases(std::vector<OpCase> &cases) {
  cases.push_back({"accumulate_dot_rows",
                   "%a: tensor<3x4x!mixle.acc<f64>>, %x: tensor<5x3xf64>, %y: tensor<5x4xf64>",
                   "%r = mixle.accumulate_dot @w %a, %x, %y data_dims = 1 block = 2 : "
                   "(tensor<3x4x!mixle.acc<f64>>, tensor<5x3xf64>, tensor<5x4xf64>) -> "
                   "tensor<3x4x!mixle.acc<f64>>"});
  cases.push_back({"accumulate_dot_tokens",
                   "%a: tensor<3x2x4x!mixle.acc<f64>>, %x: tensor<2x4x3xf64>, "
                   "%y: tensor<2x4x2x4xf64>",
                   "%r = mixle.accumulate_dot @w %a, %x, %y data_dims = 2 block = 2 : "
                   "(tensor<3x2x4x!mixle.acc<f64>>, tensor<2x4x3xf64>, "
                   "tensor<2x4x2x4xf64>) -> tensor<3x2x4x!mixle.acc<f64>>"});
  cases.push_back({"accumulate_rows",
                   "%a: tensor<3x!mixle.acc<f64>>, %x: tensor<2x4x3xf64>",
                   "%r = mixle.accumulate_rows @b %a, %x data_dims = 2 : "
                   "(tensor<3x!mixle.acc<f64>>, tensor<2x4x3xf64>) -> "
                   "tensor<3x!mixle.acc<f64>>"});
  cases.push_back({"accumulate_scatter",
                   "%a: tensor<4x3x!mixle.acc<f64>>, %i: tensor<2x4xi32>, "
                   "%x: tensor<2x4x3xf64>",
                   "%r = mixle.accumulate_scatter @w %a, %i, %x : "
                   "(tensor<4x3x!mixle.acc<f64>>, tensor<2x4xi32>, "
                   "tensor<2x4x3xf64>) -> tensor<4x3x!mixle.acc<f64>>",
                   -1.5, 1.5, -1, 5});
  const char *sum = " : (tensor<!mixle.exact<f64>>, tensor<2x3xf64>) -> "
                    "tensor<!mixle.exact<f64>>";
  const char *sumArguments = "%a: tensor<!mixle.exact<f64>>, %x: tensor<2x3xf64>";
  cases.push_back({"exact_sum", sumArguments,
                   std::string("%r = mixle.exact_sum %a, %x") + sum});
  cases.push_back({"exact_sum_square", sumArguments,
                   std::string("%r = mixle.exact_sum %a, %x {square = true}") + sum});
  OpCase count{"count_labels", "%a: tensor<i64>, %y: tensor<2x4xi32>",
               "%r = mixle.count_labels %a, %y : (tensor<i64>, tensor<2x4xi32>) "
               "-> tensor<i64>"};
  count.ignored = true;
  cases.push_back(count);
  cases.push_back({"resolve", "%a: tensor<4x3x!mixle.acc<f64>>, %n: tensor<i64>",
                   "%r = mixle.resolve @w %a, %n : (tensor<4x3x!mixle.acc<f64>>, "
                   "tensor<i64>) -> tensor<4x3xf64>",
                   -1.5, 1.5, 3, 4});
  cases.push_back({"round_exact", "%a: tensor<!mixle.exact<f64>>",
                   "%r = mixle.round_exact %a : (tensor<!mixle.exact<f64>>) -> "
                   "tensor<f64>"});
}

static void addOptimizerCases(std::vector<OpCase> &cases) {
  cases.push_back({"schedule", "%s: tensor<i64>",
                   "%r:3 = mixle.schedule %s {lr = 0.1 : f64, schedule = "
                   "\"linear,warmup=4,total=10\", beta1 = 0.9 : f64, beta2 = 0.99 : "
                   "f64} : (tensor<i64>) -> (tensor<f64>, tensor<f64>, tensor<f64>)"});
  cases.push_back({"clip_coefficient", "%q: tensor<!mixle.exact<f32>>",
                   "%r:2 = mixle.clip_coefficient %q {max_norm = 1.0 : f64} : "
                   "(tensor<!mixle.exact<f32>>) -> (tensor<f64>, tensor<f64>)",
                   0.5, 3});
  cases.push_back({"sgd_step",
                   "%p: tensor<4x3xf64>, %m: tensor<4x3xf64>, %g: tensor<4x3xf64>, "
                   "%l: tensor<f64>, %c: tensor<f64>",
                   "%r:2 = mixle.sgd_step %p, %m, %g, %l, %c {mu = 0.9 : f64, "
                   "weight_decay = 0.1 : f64} : (tensor<4x3xf64>, tensor<4x3xf64>, "
                   "tensor<4x3xf64>, tensor<f64>, tensor<f64>) -> "
                   "(tensor<4x3xf64>, tensor<4x3xf64>)"});
  for (const char *decoupled : {"true", "false"})
    cases.push_back({std::string("adam_step_decoupled_") + decoupled,
                     "%p: tensor<4x3xf64>, %m: tensor<4x3xf64>, %v: tensor<4x3xf64>, "
                     "%g: tensor<4x3xf64>, %l: tensor<f64>, %c1: tensor<f64>, "
                     "%c2: tensor<f64>, %c: tensor<f64>",
                     std::string("%r:3 = mixle.adam_step %p, %m, %v, %g, %l, %c1, "
                                 "%c2, %c {beta1 = 0.9 : f64, beta2 = 0.99 : f64, "
                                 "epsilon = 1.0e-08 : f64, weight_decay = 0.1 : f64, "
                                 "decoupled = ") +
                         decoupled +
                         "} : (tensor<4x3xf64>, tensor<4x3xf64>, tensor<4x3xf64>, "
                         "tensor<4x3xf64>, tensor<f64>, tensor<f64>, tensor<f64>, "
                         "tensor<f64>) -> (tensor<4x3xf64>, tensor<4x3xf64>, "
                         "tensor<4x3xf64>)",
                     0.1, 0.9});
}

/// Makes [K, D, D] symmetric and positive definite.
static void makeDefinite(Tensor &covariances) {
  int64_t d = covariances.shape[1];
  for (int64_t k = 0; k < covariances.shape[0]; ++k)
    for (int64_t i = 0; i < d; ++i) {
      double *matrix = covariances.reals.data() + k * d * d;
      for (int64_t j = 0; j < i; ++j)
        matrix[j * d + i] = matrix[i * d + j];
      matrix[i * d + i] += 4;
    }
}

static void addMixtureCases(std::vector<OpCase> &cases) {
  // 4 components, 2 dimensions; 5 features when diagonal, 6 when full.
  for (bool full : {false, true}) {
    std::string suffix = full ? "_full" : "_diagonal";
    std::string covariances = full ? "tensor<4x2x2xf64>" : "tensor<4x2xf64>";
    std::string features = full ? "6" : "5";
    std::string attribute = full ? " full = true : " : " full = false : ";
    cases.push_back({"mixture_features" + suffix,
                     "%x: tensor<3x2xf64>, %a: tensor<2xf64>, %s: tensor<2xf64>",
                     "%r = mixle.mixture_features %x, %a, %s" + attribute +
                         "(tensor<3x2xf64>, tensor<2xf64>, tensor<2xf64>) -> tensor<3x" +
                         features + "xf64>",
                     0.5, 2});
    OpCase forms{"mixture_forms" + suffix,
                 "%w: tensor<4xf64>, %m: tensor<4x2xf64>, %c: " + covariances +
                     ", %a: tensor<2xf64>, %s: tensor<2xf64>",
                 "%r:4 = mixle.mixture_forms %w, %m, %c, %a, %s" + attribute +
                     "(tensor<4xf64>, tensor<4x2xf64>, " + covariances +
                     ", tensor<2xf64>, tensor<2xf64>) -> (tensor<4x" + features +
                     "xf64>, " + covariances + ", tensor<4xf64>, tensor<4xi32>)",
                 0.5, 2};
    OpCase status{"mixture_status" + suffix, "%c: " + covariances,
                  "%r = mixle.mixture_status %c" + attribute + "(" + covariances +
                      ") -> tensor<i64>",
                  0.5, 2};
    OpCase step{"mixture_step" + suffix,
                "%t: tensor<4x" + features + "xf64>, %n: tensor<f64>, "
                "%a: tensor<2xf64>, %s: tensor<2xf64>, %w: tensor<4xf64>, "
                "%m: tensor<4x2xf64>, %c: " + covariances,
                "%r:3 = mixle.mixture_step %t, %n, %a, %s, %w, %m, %c spec = "
                "\"{\\22family\\22: \\22gaussian_mixture\\22, \\22dim\\22: 2, "
                "\\22components\\22: 4, \\22covariance\\22: \\22" +
                    std::string(full ? "full" : "diag") +
                    "\\22, \\22pseudo_count\\22: 2.0}\" : "
                "(tensor<4x" + features + "xf64>, tensor<f64>, tensor<2xf64>, "
                "tensor<2xf64>, tensor<4xf64>, tensor<4x2xf64>, " + covariances +
                    ") -> (tensor<4xf64>, tensor<4x2xf64>, " + covariances + ")",
                0.5, 2};
    forms.adjust = [](SmallVectorImpl<Tensor> &arguments) {
      if (arguments[2].rank() == 3)
        makeDefinite(arguments[2]);
    };
    // The second and the last component are not positive definite.
    status.adjust = [](SmallVectorImpl<Tensor> &arguments) {
      Tensor &covariances = arguments[0];
      if (covariances.rank() == 3)
        makeDefinite(covariances);
      int64_t size = covariances.sizeOf(1, covariances.rank());
      covariances.reals[1 * size] = covariances.reals[3 * size] = -1;
    };
    cases.push_back(forms);
    cases.push_back(status);
    cases.push_back(step);
    OpCase scores{"centred_scores" + suffix,
                  "%q: tensor<3x4xf64>, %x: tensor<3x2xf64>, %m: tensor<4x2xf64>, %f: " +
                      covariances + ", %k: tensor<4xf64>, %c: tensor<4xi32>",
                  "%r = mixle.centred_scores %q, %x, %m, %f, %k, %c" + attribute +
                      "(tensor<3x4xf64>, tensor<3x2xf64>, tensor<4x2xf64>, " +
                      covariances + ", tensor<4xf64>, tensor<4xi32>) -> tensor<3x4xf64>",
                  0.5, 2, 0, 2};
    cases.push_back(scores);
  }
  cases.push_back({"resolve_sum", "%a: tensor<4x3x!mixle.acc<f64>>",
                   "%r = mixle.resolve_sum @w %a : (tensor<4x3x!mixle.acc<f64>>) -> "
                   "tensor<4x3xf64>"});
}

const std::vector<OpCase> &mlir::mixle::reference::opCases() {
  static const std::vector<OpCase> cases = [] {
    std::vector<OpCase> all;
    addPointwiseCases(all);
    addShapeCases(all);
    addContractionCases(all);
    addCompositeCases(all);
    addGroupedCases(all);
    addLossCases(all);
    addSumCases(all);
    addOptimizerCases(all);
    addMixtureCases(all);
    return all;
  }();
  return cases;
}

SmallVector<Tensor>
mlir::mixle::reference::argumentsOf(const OpCase &opCase, TestEntry &entry) {
  TestRandom random(opCase.name.size() * 1000 + opCase.op.size());
  Block &body = entry.entry().getBody().front();
  int64_t count = 0;
  for (Value argument : body.getArguments())
    if (!elementTypeOf(argument).isInteger())
      count += cast<RankedTensorType>(argument.getType()).getNumElements();
  std::vector<double> pool = random.spread(count, opCase.low, opCase.high);
  SmallVector<Tensor> arguments;
  for (Value argument : body.getArguments()) {
    auto type = cast<RankedTensorType>(argument.getType());
    if (type.getElementType().isInteger()) {
      Tensor tensor = Tensor::integerZeros(type.getShape());
      bool boolean = type.getElementType().isInteger(1);
      for (auto [i, x] : llvm::enumerate(tensor.integers)) {
        x = boolean ? random.below(2)
                    : opCase.intLow + random.below(opCase.intHigh - opCase.intLow);
        if (opCase.ignored && type.getRank() > 0 && i % 3 == 1)
          x = -100;
      }
      arguments.push_back(std::move(tensor));
      continue;
    }
    Tensor tensor = Tensor::zeros(type.getShape());
    for (double &x : tensor.reals) {
      x = pool.back();
      pool.pop_back();
    }
    arguments.push_back(std::move(tensor));
  }
  if (opCase.adjust)
    opCase.adjust(arguments);
  return arguments;
}
