// Parameters that files keep apart and one product uses: two weights and their
// biases; the loss is of a gated layer.
mixle.program @packed attributes {kind = "training", config = {sequence = 8 : i64, batch = 4 : i64}} {
  mixle.parameter @gate : tensor<1x6x4xf32> factors = ["", "ffn", ""] file_shape = [6, 4] init = {kind = "normal", mean = 0.0 : f64, std = 0.02 : f64}
  mixle.parameter @up : tensor<1x6x4xf32> factors = ["", "ffn", ""] file_shape = [6, 4] init = {kind = "normal", mean = 0.0 : f64, std = 0.02 : f64}
  mixle.parameter @gate_bias : tensor<1x6xf32> factors = ["", "ffn"] file_shape = [6] init = {kind = "constant", value = 0.0 : f64}
  mixle.parameter @up_bias : tensor<1x6xf32> factors = ["", "ffn"] file_shape = [6] init = {kind = "constant", value = 0.0 : f64}
  mixle.parameter @scale : tensor<4xf32> factors = [""] file_shape = [4] init = {kind = "constant", value = 1.0 : f64}
  mixle.entry @loss(%rows: tensor<?x8x4xf32> {mixle.role = "rows"},
      %labels: tensor<?x8xi32> {mixle.role = "labels"},
      %loss: tensor<!mixle.exact<f32>> {mixle.role = "loss"},
      %count: tensor<i64> {mixle.role = "count"},
      %gate: tensor<1x6x4xf32> {mixle.role = "parameter", mixle.of = @gate},
      %up: tensor<1x6x4xf32> {mixle.role = "parameter", mixle.of = @up},
      %gate_bias: tensor<1x6xf32> {mixle.role = "parameter", mixle.of = @gate_bias},
      %up_bias: tensor<1x6xf32> {mixle.role = "parameter", mixle.of = @up_bias},
      %scale: tensor<4xf32> {mixle.role = "parameter", mixle.of = @scale})
      -> (tensor<!mixle.exact<f32>> {mixle.role = "loss"}, tensor<i64> {mixle.role = "count"}) {
    %x, %r = mixle.rms_norm %rows, %scale eps = 0.01 : (tensor<?x8x4xf32>, tensor<4xf32>) -> (tensor<?x8x4xf32>, tensor<?x8xf32>)
    %w = mixle.concat %gate, %up dim = 0 : tensor<1x6x4xf32>, tensor<1x6x4xf32> -> tensor<2x6x4xf32>
    %b = mixle.concat %gate_bias, %up_bias dim = 0 : tensor<1x6xf32>, tensor<1x6xf32> -> tensor<2x6xf32>
    %p = mixle.dot_general %x, %w contract = [2] x [2] : tensor<?x8x4xf32>, tensor<2x6x4xf32> -> tensor<?x8x2x6xf32>
    %bb = mixle.broadcast %b like %p dims = [2, 3] : tensor<2x6xf32>, tensor<?x8x2x6xf32> -> tensor<?x8x2x6xf32>
    %h = mixle.add %p, %bb : tensor<?x8x2x6xf32>
    %g = mixle.slice %h[2 : 0, 1] : tensor<?x8x2x6xf32> -> tensor<?x8x1x6xf32>
    %u = mixle.slice %h[2 : 1, 2] : tensor<?x8x2x6xf32> -> tensor<?x8x1x6xf32>
    %s = mixle.silu %g : tensor<?x8x1x6xf32>
    %y = mixle.mul %s, %u : tensor<?x8x1x6xf32>
    %l = mixle.exact_sum %loss, %y : (tensor<!mixle.exact<f32>>, tensor<?x8x1x6xf32>) -> tensor<!mixle.exact<f32>>
    %n = mixle.count_labels %count, %labels : (tensor<i64>, tensor<?x8xi32>) -> tensor<i64>
    mixle.return %l, %n : tensor<!mixle.exact<f32>>, tensor<i64>
  }
}
