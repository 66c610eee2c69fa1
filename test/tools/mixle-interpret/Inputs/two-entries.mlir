mixle.program @p attributes {kind = "estimation"} {
  mixle.entry @mean(%x: tensor<?x2xf64>, %n: tensor<i64>) -> (tensor<?xf64>, tensor<2xf64>, tensor<i64>) {
    %half = mixle.constant dense<0.5> : tensor<f64>
    %sum = mixle.reduce "sum" %x dims = [1] : tensor<?x2xf64> -> tensor<?xf64>
    %halves = mixle.broadcast %half like %sum dims = [] : tensor<f64>, tensor<?xf64> -> tensor<?xf64>
    %mean = mixle.mul %sum, %halves : tensor<?xf64>
    %infinite = mixle.constant dense<[0x7FF0000000000000, 5.0]> : tensor<2xf64>
    mixle.return %mean, %infinite, %n : tensor<?xf64>, tensor<2xf64>, tensor<i64>
  }
  mixle.entry @third() -> tensor<1xf32> {
    %one = mixle.constant dense<1.0> : tensor<1xf32>
    %three = mixle.constant dense<3.0> : tensor<1xf32>
    %r = mixle.div %one, %three : tensor<1xf32>
    mixle.return %r : tensor<1xf32>
  }
}
