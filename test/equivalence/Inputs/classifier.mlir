// Three classes of two features; a token chooses the features. (B004)
mixle.program @classifier attributes {kind = "training", config = {sequence = 2 : i64, vocabulary = 4 : i64}} {
  mixle.parameter @w : tensor<3x2xf32> factors = ["vocabulary", ""] file_shape = [3, 2] init = {kind = "normal", mean = 0.0 : f64, std = 0.5 : f64}
  mixle.entry @loss(%tokens: tensor<?x2xi32> {mixle.role = "tokens"}, %labels: tensor<?x2xi32> {mixle.role = "labels"},
      %loss: tensor<!mixle.exact<f32>> {mixle.role = "loss"}, %count: tensor<i64> {mixle.role = "count"},
      %w: tensor<3x2xf32> {mixle.role = "parameter", mixle.of = @w})
      -> (tensor<!mixle.exact<f32>> {mixle.role = "loss"}, tensor<i64> {mixle.role = "count"}) {
    %features = mixle.constant dense<[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [2.0, -1.0]]> : tensor<4x2xf32>
    %h = mixle.embedding %features, %tokens : tensor<4x2xf32>, tensor<?x2xi32> -> tensor<?x2x2xf32>
    %logits = mixle.dot_general %h, %w contract = [2] x [1] : tensor<?x2x2xf32>, tensor<3x2xf32> -> tensor<?x2x3xf32>
    %terms = mixle.softmax_cross_entropy %logits, %labels : (tensor<?x2x3xf32>, tensor<?x2xi32>) -> tensor<?x2xf32>
    %total = mixle.exact_sum %loss, %terms : (tensor<!mixle.exact<f32>>, tensor<?x2xf32>) -> tensor<!mixle.exact<f32>>
    %number = mixle.count_labels %count, %labels : (tensor<i64>, tensor<?x2xi32>) -> tensor<i64>
    mixle.return %total, %number : tensor<!mixle.exact<f32>>, tensor<i64>
  }
}
