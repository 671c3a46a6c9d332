// RUN: sheaf-opt %s --verify-diagnostics --nn-print-rules

// Groups and widths are sharded; experts, choices and rows are needed whole.
func.func @f(%x: tensor<4x6x8xf32>, %b: tensor<8xf32>, %t: tensor<4x6x3xf32>, %m: tensor<8x3x5xf32>, %n: tensor<8x5x3xf32>) {
  // expected-remark @+1 {{rule: [d0][d1][e] -> [d0][d1][k], [d0][d1][k] {d0=4, d1=6, e=8 whole, k=2 whole}}}
  %w, %e = nn.route softmax %x k 2 : (tensor<4x6x8xf32>) -> (tensor<4x6x2xf32>, tensor<4x6x2xi32>)
  // expected-remark @+1 {{rule: [d0][d1][e], [e] -> [d0][d1][], [d0][d1][] {d0=4, d1=6, e=8 whole}}}
  %w1, %e1 = nn.route sigmoid %x bias %b k 1 : (tensor<4x6x8xf32>, tensor<8xf32>) -> (tensor<4x6x1xf32>, tensor<4x6x1xi32>)
  // expected-remark @+1 {{rule: [b][s][k] -> [b][r], [b][s][k], [b][o] {b=4, s=6 whole, k=2 whole, r=12 whole, o=9 whole}}}
  %o, %p, %q = nn.expert_sort %e of 8 : (tensor<4x6x2xi32>) -> (tensor<4x12xi32>, tensor<4x6x2xi32>, tensor<4x9xi32>)
  // expected-remark @+1 {{rule: [b][s][h], [b][r], [b][s][k] -> [b][r][h] {b=4, s=6 whole, k=2 whole, r=12 whole, h=3} linear joint(0)}}
  %r = nn.dispatch %t, %o, %p : (tensor<4x6x3xf32>, tensor<4x12xi32>, tensor<4x6x2xi32>) -> tensor<4x12x3xf32>
  // expected-remark @+1 {{rule: [b][r][k], [e][k][n], [b][o] -> [b][r][n] {b=4, r=12 whole, e=8 whole, o=9 whole, k=3 sum, n=5} linear separate(0, 1)}}
  %y = nn.grouped_matmul %r, %m, %q : (tensor<4x12x3xf32>, tensor<8x3x5xf32>, tensor<4x9xi32>) -> tensor<4x12x5xf32>
  // expected-remark @+1 {{rule: [b][r][k], [e][n][k], [b][o] -> [b][r][n] {b=4, r=12 whole, e=8 whole, o=9 whole, k=3 sum, n=5} linear separate(0, 1)}}
  %z = nn.grouped_matmul %r, %n, %q transposed : (tensor<4x12x3xf32>, tensor<8x5x3xf32>, tensor<4x9xi32>) -> tensor<4x12x5xf32>
  // expected-remark @+1 {{rule: [b][r][k], [b][r][n], [b][o] -> [e][k][n] {b=4 sum, r=12 whole, e=8 whole, o=9 whole, k=3, n=5} linear separate(0, 1)}}
  %g = nn.grouped_outer %r, %y, %q : (tensor<4x12x3xf32>, tensor<4x12x5xf32>, tensor<4x9xi32>) -> tensor<8x3x5xf32>
  // expected-remark @+1 {{rule: [b][r][h], [b][r], [b][s][k], [b][s][k] -> [b][s][h] {b=4, s=6, k=2 whole, r=12 whole, h=5} linear separate(0, 3)}}
  %c = nn.combine %y, %o, %p weights %w : (tensor<4x12x5xf32>, tensor<4x12xi32>, tensor<4x6x2xi32>, tensor<4x6x2xf32>) -> tensor<4x6x5xf32>
  return
}
