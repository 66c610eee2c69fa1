// Every constraint of mixture ops, by its label.
// RUN: mixle-opt %s -split-input-file -verify-diagnostics

mixle.program @p attributes {kind = "estimation"} {
  mixle.entry @e(%rows: tensor<?x2xf64>, %anchor: tensor<3xf64>, %scale: tensor<2xf64>) {
    // expected-error @+1 {{(M1) anchor 'tensor<3xf64>' should be 'tensor<2xf64>'}}
    %0 = mixle.mixture_features %rows, %anchor, %scale full = true
        : (tensor<?x2xf64>, tensor<3xf64>, tensor<2xf64>) -> tensor<?x6xf64>
    mixle.return
  }
}

// -----

mixle.program @p attributes {kind = "estimation"} {
  mixle.entry @e(%rows: tensor<?x2xf64>, %anchor: tensor<2xf64>) {
    // expected-error @+1 {{has results of types 'tensor<?x5xf64>', expected 'tensor<?x6xf64>'}}
    %0 = mixle.mixture_features %rows, %anchor, %anchor full = true
        : (tensor<?x2xf64>, tensor<2xf64>, tensor<2xf64>) -> tensor<?x5xf64>
    mixle.return
  }
}

// -----

mixle.program @p attributes {kind = "estimation"} {
  mixle.entry @e(%w: tensor<3xf64>, %m: tensor<3x2xf64>, %c: tensor<3x2xf64>, %a: tensor<2xf64>) {
    // expected-error @+1 {{(M2) covariances 'tensor<3x2xf64>' should be 'tensor<3x2x2xf64>'}}
    %0:4 = mixle.mixture_forms %w, %m, %c, %a, %a full = true
        : (tensor<3xf64>, tensor<3x2xf64>, tensor<3x2xf64>, tensor<2xf64>, tensor<2xf64>)
        -> (tensor<3x6xf64>, tensor<3x2x2xf64>, tensor<3xf64>, tensor<3xi32>)
    mixle.return
  }
}

// -----

mixle.program @p attributes {kind = "estimation"} {
  mixle.entry @e(%s: tensor<?x3xf64>, %x: tensor<?x2xf64>, %m: tensor<4x2xf64>,
      %f: tensor<3x2xf64>, %k: tensor<3xf64>, %c: tensor<3xi32>) {
    // expected-error @+1 {{(M3) means 'tensor<4x2xf64>' should be 'tensor<3x2xf64>'}}
    %0 = mixle.centred_scores %s, %x, %m, %f, %k, %c full = false
        : (tensor<?x3xf64>, tensor<?x2xf64>, tensor<4x2xf64>, tensor<3x2xf64>, tensor<3xf64>,
           tensor<3xi32>) -> tensor<?x3xf64>
    mixle.return
  }
}

// -----

mixle.program @p attributes {kind = "estimation"} {
  mixle.entry @e(%acc: tensor<3x!mixle.acc<f32>>) {
    // expected-error @+1 {{(M4) accumulator}}
    %0 = mixle.resolve_sum @w %acc : (tensor<3x!mixle.acc<f32>>) -> tensor<3xf64>
    mixle.return
  }
}

// -----

mixle.program @p attributes {kind = "estimation"} {
  mixle.entry @e(%t: tensor<3x5xf64>, %n: tensor<f64>, %a: tensor<2xf64>, %w: tensor<3xf64>,
      %m: tensor<3x2xf64>) {
    // expected-error @+1 {{(M4) spec is empty}}
    %0:3 = mixle.mixture_step %t, %n, %a, %a, %w, %m, %m spec = ""
        : (tensor<3x5xf64>, tensor<f64>, tensor<2xf64>, tensor<2xf64>, tensor<3xf64>,
           tensor<3x2xf64>, tensor<3x2xf64>)
        -> (tensor<3xf64>, tensor<3x2xf64>, tensor<3x2xf64>)
    mixle.return
  }
}

// -----

mixle.program @p attributes {kind = "estimation"} {
  mixle.entry @e(%c: tensor<3x2xf64>) {
    // expected-error @+1 {{(M2) covariances 'tensor<3x2xf64>' should have 3 dimensions}}
    %0 = mixle.mixture_status %c full = true : (tensor<3x2xf64>) -> tensor<i64>
    mixle.return
  }
}
