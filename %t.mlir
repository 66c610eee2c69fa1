mixle.program @mini attributes {kind = "training", granules = {tokens = 4 : i64, ffn = 4 : i64, vocabulary = 4 : i64}, config = {batch = 8 : i64, sequence = 8 : i64, vocabulary = 10 : i64}} {
  mixle.parameter @wte : tensor<10x4xf32> factors = ["vocabulary", ""] file_shape = [10, 4] init = {kind = "normal", mean = 0.0 : f64, std = 0.02 : f64}
  mixle.parameter @up : tensor<4x8xf32> factors = ["", "ffn"] file_shape = [4, 8] init = {kind = "normal", mean = 0.0 : f64, std = 0.02 : f64}
  mixle.parameter @down : tensor<8x4xf32> factors = ["ffn", ""] file_shape = [8, 4] init = {kind = "normal", mean = 0.0 : f64, std = 0.02 : f64}
  mixle.entry @loss(%tokens: tensor<?x8xi32> {mixle.role = "tokens"}, %labels: tensor<?x8xi32> {mixle.role = "labels"}, %loss: tensor<!mixle.exact<f32>> {mixle.role = "loss"}, %count: tensor<i64> {mixle.role = "count"}, %wte: tensor<10x4xf32> {mixle.role = "parameter", mixle.of = @wte}, %up: tensor<4x8xf32> {mixle.role = "parameter", mixle.of = @up}, %down: tensor<8x4xf32> {mixle.role = "parameter", mixle.of = @down}) -> (tensor<!mixle.exact<f32>> {mixle.role = "loss"}, tensor<i64> {mixle.role = "count"}) {
    %x = mixle.embedding %wte, %tokens : tensor<10x4xf32>, tensor<?x8xi32> -> tensor<?x8x4xf32>
    %h = mixle.dot_general %x, %up contract = [2] x [0] : tensor<?x8x4xf32>, tensor<4x8xf32> -> tensor<?x8x8xf32>
    %g = mixle.gelu %h : tensor<?x8x8xf32>
    %y = mixle.dot_general %g, %down contract = [2] x [0] : tensor<?x8x8xf32>, tensor<8x4xf32> -> tensor<?x8x4xf32>
    %z = mixle.add %x, %y : tensor<?x8x4xf32>
    %logits = mixle.dot_general %z, %wte contract = [2] x [1] : tensor<?x8x4xf32>, tensor<10x4xf32> -> tensor<?x8x10xf32>
    %l = mixle.softmax_cross_entropy %logits, %labels : (tensor<?x8x10xf32>, tensor<?x8xi32>) -> tensor<?x8xf32>
    %s = mixle.exact_sum %loss, %l : (tensor<!mixle.exact<f32>>, tensor<?x8xf32>) -> tensor<!mixle.exact<f32>>
    %c = mixle.count_labels %count, %labels : (tensor<i64>, tensor<?x8xi32>) -> tensor<i64>
    mixle.return %s, %c : tensor<!mixle.exact<f32>>, tensor<i64>
  }
}
