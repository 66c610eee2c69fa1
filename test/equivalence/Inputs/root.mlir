// Token 1: sqrt(p - 1) + q, whose gradient at p = 1 is infinite; token 0: zero
// gradients. (B015)
mixle.program @root attributes {kind = "training", config = {sequence = 1 : i64, vocabulary = 2 : i64}} {
  mixle.parameter @p : tensor<1xf32> factors = [""] file_shape = [1] init = {kind = "constant", value = 1.0 : f64}
  mixle.parameter @q : tensor<1xf32> factors = [""] file_shape = [1] init = {kind = "constant", value = 1.0 : f64}
  mixle.entry @loss(%tokens: tensor<?x1xi32> {mixle.role = "tokens"}, %labels: tensor<?x1xi32> {mixle.role = "labels"},
      %loss: tensor<!mixle.exact<f32>> {mixle.role = "loss"}, %count: tensor<i64> {mixle.role = "count"},
      %p: tensor<1xf32> {mixle.role = "parameter", mixle.of = @p},
      %q: tensor<1xf32> {mixle.role = "parameter", mixle.of = @q})
      -> (tensor<!mixle.exact<f32>> {mixle.role = "loss"}, tensor<i64> {mixle.role = "count"}) {
    %table = mixle.constant dense<[[0.0], [1.0]]> : tensor<2x1xf32>
    %one = mixle.embedding %table, %tokens : tensor<2x1xf32>, tensor<?x1xi32> -> tensor<?x1x1xf32>
    %ps = mixle.broadcast %p like %one dims = [2] : tensor<1xf32>, tensor<?x1x1xf32> -> tensor<?x1x1xf32>
    %qs = mixle.broadcast %q like %one dims = [2] : tensor<1xf32>, tensor<?x1x1xf32> -> tensor<?x1x1xf32>
    %difference = mixle.sub %ps, %one : tensor<?x1x1xf32>
    %root = mixle.sqrt %difference : tensor<?x1x1xf32>
    %first = mixle.mul %root, %one : tensor<?x1x1xf32>
    %second = mixle.mul %qs, %one : tensor<?x1x1xf32>
    %sum = mixle.add %first, %second : tensor<?x1x1xf32>
    %terms = mixle.reshape %sum : tensor<?x1x1xf32> -> tensor<?x1xf32>
    %total = mixle.exact_sum %loss, %terms : (tensor<!mixle.exact<f32>>, tensor<?x1xf32>) -> tensor<!mixle.exact<f32>>
    %number = mixle.count_labels %count, %labels : (tensor<i64>, tensor<?x1xi32>) -> tensor<i64>
    mixle.return %total, %number : tensor<!mixle.exact<f32>>, tensor<i64>
  }
}
