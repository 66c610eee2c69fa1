// y = w x with x = 1, loss (w - y)^2 / 2; a token says which y. (B005)
mixle.program @scalar attributes {kind = "training", config = {sequence = 1 : i64, vocabulary = 5 : i64}} {
  mixle.parameter @w : tensor<1xf64> factors = [""] file_shape = [1] init = {kind = "constant", value = 0.0 : f64}
  mixle.entry @loss(%tokens: tensor<?x1xi32> {mixle.role = "tokens"}, %labels: tensor<?x1xi32> {mixle.role = "labels"},
      %loss: tensor<!mixle.exact<f64>> {mixle.role = "loss"}, %count: tensor<i64> {mixle.role = "count"},
      %w: tensor<1xf64> {mixle.role = "parameter", mixle.of = @w})
      -> (tensor<!mixle.exact<f64>> {mixle.role = "loss"}, tensor<i64> {mixle.role = "count"}) {
    %values = mixle.constant dense<[[1.0], [2.0], [3.0], [4.0], [10.0]]> : tensor<5x1xf64>
    %half = mixle.constant dense<0.5> : tensor<f64>
    %y = mixle.embedding %values, %tokens : tensor<5x1xf64>, tensor<?x1xi32> -> tensor<?x1x1xf64>
    %ws = mixle.broadcast %w like %y dims = [2] : tensor<1xf64>, tensor<?x1x1xf64> -> tensor<?x1x1xf64>
    %halves = mixle.broadcast %half like %y dims = [] : tensor<f64>, tensor<?x1x1xf64> -> tensor<?x1x1xf64>
    %difference = mixle.sub %ws, %y : tensor<?x1x1xf64>
    %square = mixle.mul %difference, %difference : tensor<?x1x1xf64>
    %scaled = mixle.mul %square, %halves : tensor<?x1x1xf64>
    %terms = mixle.reshape %scaled : tensor<?x1x1xf64> -> tensor<?x1xf64>
    %total = mixle.exact_sum %loss, %terms : (tensor<!mixle.exact<f64>>, tensor<?x1xf64>) -> tensor<!mixle.exact<f64>>
    %number = mixle.count_labels %count, %labels : (tensor<i64>, tensor<?x1xi32>) -> tensor<i64>
    mixle.return %total, %number : tensor<!mixle.exact<f64>>, tensor<i64>
  }
}
