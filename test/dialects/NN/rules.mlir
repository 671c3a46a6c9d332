// RUN: sheaf-opt %s --split-input-file --verify-diagnostics --nn-print-rules

// Elementwise: broadcast dimensions of size 1 have no factor.
func.func @f(%x: tensor<4x8xf32>, %r: tensor<1x8xf32>, %c: tensor<4x1xf32>, %s: tensor<f32>, %m: tensor<8xi1>, %i: tensor<4xi32>) {
  // expected-remark @+1 {{rule: [d0][d1], [d0][d1] -> [d0][d1] {d0=4, d1=8} linear joint(0, 1) monotone(0, 1)}}
  %0 = nn.add %x, %x : tensor<4x8xf32>
  // expected-remark @+1 {{rule: [d0][d1], [][d1] -> [d0][d1] {d0=4, d1=8} linear joint(0, 1) monotone(0, 1)}}
  %1 = nn.add %x, %r : (tensor<4x8xf32>, tensor<1x8xf32>) -> tensor<4x8xf32>
  // expected-remark @+1 {{rule: [][d1], [d0][] -> [d0][d1] {d0=4, d1=8} linear joint(0, 1) monotone(0)}}
  %2 = nn.sub %r, %c : (tensor<1x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  // expected-remark @+1 {{rule: [d0][d1], () -> [d0][d1] {d0=4, d1=8} linear separate(0, 1)}}
  %3 = nn.mul %x, %s : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  // expected-remark @+1 {{rule: [d0][d1], [d0][] -> [d0][d1] {d0=4, d1=8} linear separate(0)}}
  %4 = nn.div %x, %c : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  // expected-remark @+1 {{rule: [d0][d1], [d0][d1] -> [d0][d1] {d0=4, d1=8} monotone(0, 1)}}
  %5 = nn.max %x, %x : tensor<4x8xf32>
  // expected-remark @+1 {{rule: [d1], [d0][d1], () -> [d0][d1] {d0=4, d1=8} linear joint(1, 2) monotone(1, 2)}}
  %6 = nn.select %m, %x, %s : (tensor<8xi1>, tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  // expected-remark @+1 {{rule: [d0][d1], () -> [d0][d1] {d0=4, d1=8}}}
  %7 = nn.compare lt %x, %s : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xi1>
  // expected-remark @+1 {{rule: [d0][d1] -> [d0][d1] {d0=4, d1=8} linear joint(0)}}
  %8 = nn.neg %x : tensor<4x8xf32>
  // expected-remark @+1 {{rule: [d0][d1] -> [d0][d1] {d0=4, d1=8} monotone(0)}}
  %9 = nn.exp %x : tensor<4x8xf32>
  // expected-remark @+1 {{rule: [d0][d1] -> [d0][d1] {d0=4, d1=8}}}
  %10 = nn.abs %x : tensor<4x8xf32>
  // expected-remark @+1 {{rule: [d0], [d0] -> [d0] {d0=4}}}
  %11 = nn.div %i, %i : tensor<4xi32>
  // expected-remark @+1 {{rule: [d0][d1] -> [d0][d1] {d0=4, d1=8}}}
  %12 = nn.silu %x : tensor<4x8xf32>
  return
}

// -----

// A cast is linear where it is exact.
func.func @f(%b: tensor<4xbf16>, %x: tensor<4xf32>, %i: tensor<4xi32>, %e: tensor<4xf8E5M2>, %m: tensor<4xi1>) {
  // expected-remark @+1 {{rule: [d0] -> [d0] {d0=4} linear joint(0) monotone(0)}}
  %0 = nn.cast %b : tensor<4xbf16> -> tensor<4xf32>
  // expected-remark @+1 {{rule: [d0] -> [d0] {d0=4} monotone(0)}}
  %1 = nn.cast %x : tensor<4xf32> -> tensor<4xbf16>
  // expected-remark @+1 {{rule: [d0] -> [d0] {d0=4} monotone(0)}}
  %2 = nn.cast %i : tensor<4xi32> -> tensor<4xf32>
  // expected-remark @+1 {{rule: [d0] -> [d0] {d0=4} linear joint(0) monotone(0)}}
  %3 = nn.cast %i : tensor<4xi32> -> tensor<4xf64>
  // expected-remark @+1 {{rule: [d0] -> [d0] {d0=4} linear joint(0) monotone(0)}}
  %4 = nn.cast %e : tensor<4xf8E5M2> -> tensor<4xf16>
  // expected-remark @+1 {{rule: [d0] -> [d0] {d0=4} monotone(0)}}
  %5 = nn.cast %m : tensor<4xi1> -> tensor<4xf32>
  // expected-remark @+1 {{rule: [d0] -> [d0] {d0=4}}}
  %6 = nn.cast %x : tensor<4xf32> -> tensor<4xi1>
  return
}

// -----

// Einsum: letters are factors.
func.func @f(%x: tensor<8x64x32xf32>, %w: tensor<32x96xf32>, %u: tensor<1x32xf32>) {
  // expected-remark @+1 {{rule: [b][s][d], [d][f] -> [b][s][f] {b=8, s=64, d=32 sum, f=96} linear separate(0, 1)}}
  %0 = nn.einsum "bsd,df->bsf"(%x, %w) : (tensor<8x64x32xf32>, tensor<32x96xf32>) -> tensor<8x64x96xf32>
  // expected-remark @+1 {{rule: [b][s][d], [][d] -> [b][s][] {b=8, s=64, d=32 sum} linear separate(0, 1)}}
  %1 = nn.einsum "bsd,ed->bse"(%x, %u) : (tensor<8x64x32xf32>, tensor<1x32xf32>) -> tensor<8x64x1xf32>
  // expected-remark @+1 {{rule: [b][s][d] -> [d][b] {b=8, s=64 sum, d=32} linear separate(0)}}
  %2 = nn.einsum "bsd->db"(%x) : (tensor<8x64x32xf32>) -> tensor<32x8xf32>
  return
}

// -----

// Reductions have their kind.
func.func @f(%x: tensor<4x8x1xf32>) {
  // expected-remark @+1 {{rule: [d0][d1][] -> [d1] {d0=4 sum, d1=8} linear joint(0)}}
  %0 = nn.reduce sum %x dims [0, 2] : (tensor<4x8x1xf32>) -> tensor<8xf32>
  // expected-remark @+1 {{rule: [d0][d1][] -> [d0][][] {d0=4, d1=8 max} monotone(0)}}
  %1 = nn.reduce max %x dims [1] keep : (tensor<4x8x1xf32>) -> tensor<4x1x1xf32>
  // expected-remark @+1 {{rule: [d0][d1][] -> [d0][] {d0=4, d1=8 min} monotone(0)}}
  %2 = nn.reduce min %x dims [1] : (tensor<4x8x1xf32>) -> tensor<4x1xf32>
  // expected-remark @+1 {{rule: [d0][d1][] -> [d0][] {d0=4, d1=8 sum via global_mean} linear joint(0)}}
  %3 = nn.reduce mean %x dims [1] : (tensor<4x8x1xf32>) -> tensor<4x1xf32>
  // expected-remark @+1 {{rule: [d0][d1][] -> () {d0=4 sum, d1=8 sum}}}
  %4 = nn.reduce sum_of_squares %x dims [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<f32>
  return
}

// -----

// Reshape: greatest common divisors from the outside; what does not match is whole.
func.func @f(%x: tensor<8x64x768xf32>, %y: tensor<12x8xf32>, %z: tensor<3x4x5xf32>, %s: tensor<f32>, %u: tensor<1x6x1x4xf32>) {
  // expected-remark @+1 {{rule: [d0][d1][d2 d3] -> [d0][d1][d2][d3] {d0=8, d1=64, d2=12, d3=64} linear joint(0) monotone(0)}}
  %0 = nn.reshape %x : tensor<8x64x768xf32> -> tensor<8x64x12x64xf32>
  // expected-remark @+1 {{rule: [d0][d1][d2] -> [d0 d1][d2] {d0=8, d1=64, d2=768} linear joint(0) monotone(0)}}
  %1 = nn.reshape %x : tensor<8x64x768xf32> -> tensor<512x768xf32>
  // expected-remark @+1 {{rule: [d0 d1][d3] -> [d0 d2][d4] {d0=4, d1=3 whole, d2=4 whole, d3=8 whole, d4=6 whole} linear joint(0) monotone(0)}}
  %2 = nn.reshape %y : tensor<12x8xf32> -> tensor<16x6xf32>
  // expected-remark @+1 {{rule: [d0][d2][d4] -> [d1][d3][d4] {d0=3 whole, d1=4 whole, d2=4 whole, d3=3 whole, d4=5} linear joint(0) monotone(0)}}
  %3 = nn.reshape %z : tensor<3x4x5xf32> -> tensor<4x3x5xf32>
  // expected-remark @+1 {{rule: () -> [][] {} linear joint(0) monotone(0)}}
  %4 = nn.reshape %s : tensor<f32> -> tensor<1x1xf32>
  // expected-remark @+1 {{rule: [][d0][][d1] -> [d0 d1][] {d0=6, d1=4} linear joint(0) monotone(0)}}
  %5 = nn.reshape %u : tensor<1x6x1x4xf32> -> tensor<24x1xf32>
  // expected-remark @+1 {{rule: [][d0 d1][][d2] -> [d0][d1][d2] {d0=2, d1=3, d2=4} linear joint(0) monotone(0)}}
  %6 = nn.reshape %u : tensor<1x6x1x4xf32> -> tensor<2x3x4xf32>
  return
}

// -----

// Other shapes.
func.func @f(%x: tensor<4x8xf32>, %c: tensor<4x1xf32>) {
  // expected-remark @+1 {{rule: [d0][d1] -> [d1][d0] {d0=4, d1=8} linear joint(0) monotone(0)}}
  %0 = nn.transpose %x [1, 0] : (tensor<4x8xf32>) -> tensor<8x4xf32>
  // expected-remark @+1 {{rule: [d1][] -> [d0][d1][d2] {d0=3, d1=4, d2=8} linear joint(0) monotone(0)}}
  %1 = nn.broadcast %c dims [1, 2] : tensor<4x1xf32> -> tensor<3x4x8xf32>
  // expected-remark @+1 {{rule: [d0][d1] -> [d0][d1] {d0=4, d1=8 whole via shifted_window} linear joint(0) monotone(0)}}
  %2 = nn.slice %x offsets [0, 2] sizes [4, 4] : (tensor<4x8xf32>) -> tensor<4x4xf32>
  // expected-remark @+1 {{rule: [d0][d1] -> [][d1] {d0=4 whole via shifted_window, d1=8} linear joint(0) monotone(0)}}
  %3 = nn.slice %x offsets [3, 0] sizes [1, 8] : (tensor<4x8xf32>) -> tensor<1x8xf32>
  // expected-remark @+1 {{rule: [d0][d1] -> [d0][d1] {d0=4, d1=10 whole via shifted_window} linear joint(0) monotone(0)}}
  %4 = nn.pad %x low [0, 1] high [0, 1] : (tensor<4x8xf32>) -> tensor<4x10xf32>
  // expected-remark @+1 {{rule: [d0][d1] -> [d0][d1] {d0=4, d1=10 whole via shifted_window} monotone(0)}}
  %5 = nn.pad %x low [0, 1] high [0, 1] value 1.0 : (tensor<4x8xf32>) -> tensor<4x10xf32>
  // expected-remark @+1 {{rule: [d0][d1], [d0][] -> [d0][d1] {d0=4, d1=9 whole via shifted_window} linear joint(0, 1) monotone(0, 1)}}
  %6 = nn.concatenate %x, %c dim 1 : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x9xf32>
  // expected-remark @+1 {{rule: [d0][d1], [d0][d1] -> [d0][d1] {d0=4, d1=18 whole via shifted_window} linear joint(0, 1) monotone(0, 1)}}
  %7 = nn.concatenate %x, %4 dim 1 : (tensor<4x8xf32>, tensor<4x10xf32>) -> tensor<4x18xf32>
  // expected-remark @+1 {{rule: -> [d0][d1] {d0=4, d1=8 via offset_iota}}}
  %8 = nn.iota dim 1 : tensor<4x8xi32>
  // expected-remark @+1 {{rule: -> [d0][d1] {d0=4, d1=8}}}
  %9 = nn.constant dense<0.0> : tensor<4x8xf32>
  // expected-remark @+1 {{rule: -> [d0] {d0=2 via constant_shard}}}
  %10 = nn.constant dense<[0.0, 1.0]> : tensor<2xf32>
  return
}

// -----

// Indexed access and random numbers.
func.func @f(%t: tensor<256x64xf32>, %i: tensor<4x8xi32>, %g: tensor<4x8x64xf32>, %b: tensor<4x16x3xf32>, %k: tensor<4xi32>, %s: tensor<i32>) {
  // expected-remark @+1 {{rule: [d0][d1], [i0][i1] -> [i0][i1][d1] {d0=256 sum via masked_gather, d1=64, i0=4, i1=8} linear joint(0)}}
  %0 = nn.embedding %t[%i] : (tensor<256x64xf32>, tensor<4x8xi32>) -> tensor<4x8x64xf32>
  // expected-remark @+1 {{rule: [d0][d1][d2], [d0][i1] -> [d0][i1][d2] {d0=4, d1=16 sum via masked_gather, d2=3, i1=8} linear joint(0)}}
  %1 = nn.gather %b[%i] axis 1 batch 1 : (tensor<4x16x3xf32>, tensor<4x8xi32>) -> tensor<4x8x3xf32>
  // expected-remark @+1 {{rule: [i0][i1][d1], [i0][i1] -> [d0][d1] {d0=256 via masked_gather, d1=64, i0=4 sum, i1=8 sum} linear joint(0)}}
  %2 = nn.gather_grad %g[%i] axis 0 : (tensor<4x8x64xf32>, tensor<4x8xi32>) -> tensor<256x64xf32>
  // expected-remark @+1 {{rule: [d0][d1] -> [d0][k], [d0][k] {d0=256, d1=64 whole via top_k_merge, k=2 whole}}}
  %3, %4 = nn.top_k %t k 2 : (tensor<256x64xf32>) -> (tensor<256x2xf32>, tensor<256x2xi32>)
  // expected-remark @+1 {{rule: [key], () -> [d0][d1] {d0=4 via offset_random, d1=8 via offset_random, key=4 whole}}}
  %5 = nn.random uniform %k, %s : (tensor<4xi32>, tensor<i32>) -> tensor<4x8xf32>
  // expected-remark @+1 {{rule: [d0][d1], [key], () -> [d0][d1] {d0=256 via offset_random, d1=64 via offset_random, key=4 whole} linear joint(0)}}
  %6 = nn.dropout %t, %k, %s rate 0.1 : (tensor<256x64xf32>, tensor<4xi32>, tensor<i32>) -> tensor<256x64xf32>
  return
}

// -----

// Composites of a transformer.
func.func @f(%x: tensor<4x8x16xf32>, %s: tensor<16xf32>, %r: tensor<2x6x4x8xf32>, %p: tensor<2x6xi32>, %k: tensor<2x6x2x8xf32>, %l: tensor<2x6x4xf32>, %b: tensor<1x4x6x6xf32>, %v: tensor<2x5x2x8xf32>, %o: tensor<i32>) {
  // expected-remark @+1 {{rule: [d0][d1][d2] -> [d0][d1][d2] {d0=4, d1=8, d2=16 whole via softmax_merge}}}
  %0 = nn.softmax %x dim 2 : tensor<4x8x16xf32>
  // expected-remark @+1 {{rule: [d0][d1][d2], [d2], [d2] -> [d0][d1][d2] {d0=4, d1=8, d2=16 whole}}}
  %1 = nn.layer_norm %x, %s, %s eps 1.0e-5 : (tensor<4x8x16xf32>, tensor<16xf32>, tensor<16xf32>) -> tensor<4x8x16xf32>
  // expected-remark @+1 {{rule: [d0][d1][d2], [d2] -> [d0][d1][d2] {d0=4, d1=8, d2=16 whole} linear joint(1)}}
  %2 = nn.rms_norm %x, %s eps 1.0e-5 : (tensor<4x8x16xf32>, tensor<16xf32>) -> tensor<4x8x16xf32>
  // expected-remark @+1 {{rule: [b][s][h][d], [b][s] -> [b][s][h][d] {b=2, s=6, h=4, d=8 whole} linear joint(0)}}
  %3 = nn.rotary %r, %p theta 10000.0 : (tensor<2x6x4x8xf32>, tensor<2x6xi32>) -> tensor<2x6x4x8xf32>
  // expected-remark @+1 {{rule: [b][s][g r][d], [b][t][g][d], [b][t][g][e] -> [b][s][g r][e] {b=2, s=6 via offset_mask, t=6 whole via ring, g=2, r=2, d=8 whole, e=8} linear joint(2)}}
  %4 = nn.attention %r, %k, %k causal : (tensor<2x6x4x8xf32>, tensor<2x6x2x8xf32>, tensor<2x6x2x8xf32>) -> tensor<2x6x4x8xf32>
  // expected-remark @+1 {{rule: [b][s][g r][d], [b][t][g][d], [b][t][g][e] -> [b][s][g r][e], [b][s][g r] {b=2, s=6, t=5 whole via attention_merge, g=2, r=2, d=8 whole, e=8}}}
  %5, %6 = nn.attention %r, %v, %v : (tensor<2x6x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x8xf32>) -> (tensor<2x6x4x8xf32>, tensor<2x6x4xf32>)
  // expected-remark @+1 {{rule: [b][s][g r][d], [b][t][g][d], [b][t][g][e], [b][s][g r][e], [b][s][g r], [b][s][g r][e], [][g r][s][t], [b][s], [b][t] -> [b][s][g r][d], [b][t][g][d], [b][t][g][e], [][g r][s][t] {b=2 sum, s=6 sum via offset_mask, t=6 whole via ring, g=2, r=2 sum, d=8 whole, e=8 sum} linear joint(5)}}
  %7:4 = nn.attention_grad %r, %k, %k result %r, %l grad %r bias %b documents %p, %p causal : (tensor<2x6x4x8xf32>, tensor<2x6x2x8xf32>, tensor<2x6x2x8xf32>, tensor<2x6x4x8xf32>, tensor<2x6x4xf32>, tensor<2x6x4x8xf32>, tensor<1x4x6x6xf32>, tensor<2x6xi32>, tensor<2x6xi32>) -> (tensor<2x6x4x8xf32>, tensor<2x6x2x8xf32>, tensor<2x6x2x8xf32>, tensor<1x4x6x6xf32>)
  // expected-remark @+1 {{rule: [b][s][g r][d], [b][t][g][d], [b][t][g][e], () -> [b][s][g r][e] {b=2, s=6 via offset_mask, t=5 whole via attention_merge, g=2, r=2, d=8 whole, e=8} linear joint(2)}}
  %8 = nn.attention %r, %v, %v from %o window 2 : (tensor<2x6x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x8xf32>, tensor<i32>) -> tensor<2x6x4x8xf32>
  return
}

// -----

// The loss, the step and the updates.
func.func @f(%x: tensor<4x8xf32>, %t: tensor<4xi32>, %l: tensor<4xf32>, %m: tensor<4xi1>, %s: tensor<f32>) {
  // expected-remark @+1 {{rule: [d0][v], [d0] -> [d0], [d0] {d0=4, v=8 whole via vocab_loss}}}
  %0, %1 = nn.cross_entropy %x, %t : (tensor<4x8xf32>, tensor<4xi32>) -> (tensor<4xf32>, tensor<4xf32>)
  // expected-remark @+1 {{rule: [d0][v], [d0], [d0], [d0] -> [d0][v] {d0=4, v=8 via vocab_loss} linear joint(3)}}
  %2 = nn.cross_entropy_grad %x, %t, %l grad %l : (tensor<4x8xf32>, tensor<4xi32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4x8xf32>
  // expected-remark @+1 {{rule: [d0], [d0] -> () {d0=4 whole via global_count} linear joint(0)}}
  %3 = nn.step_mean %l weights %m : (tensor<4xf32>, tensor<4xi1>) -> tensor<f32>
  // expected-remark @+1 {{rule: [d0] -> () {d0=4 sum}}}
  %6 = nn.step_sum %m : tensor<4xi1> -> tensor<f32>
  // expected-remark @+1 {{rule: [d0][d1], [d0][d1], [d0][d1], (), (), (), () -> [d0][d1], [d0][d1] {d0=4, d1=8}}}
  %4:2 = nn.sgd %x, %x, %x lr %s momentum %s decay %s grad_scale %s : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<4x8xf32>, tensor<4x8xf32>)
  // expected-remark @+1 {{rule: [d0][d1], [d0][d1], [d0][d1], [d0][d1], (), (), (), (), (), (), (), () -> [d0][d1], [d0][d1], [d0][d1] {d0=4, d1=8}}}
  %5:3 = nn.adamw %x, %x, %x, %x lr %s beta1 %s beta2 %s eps %s decay %s corrections %s, %s grad_scale %s : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>)
  return
}

// -----

// Ops without a rule are replicated; a rule can be written on any op, and comes first.
func.func private @g(tensor<4x8xf32>) -> tensor<4x8xf32>
func.func @f(%x: tensor<4x8xf32>, %y: tensor<?x8xf32>) {
  // expected-remark @+1 {{no rule: replicated}}
  %0 = func.call @g(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // expected-remark @+1 {{no rule: replicated}}
  %1 = math.exp %x : tensor<4x8xf32>
  // expected-remark @+1 {{rule: [a][b] -> [a][b] {a=4, b=8 whole via softmax_merge}}}
  %2 = math.exp %x {nn.rule = "[a][b] -> [a][b] {a=4, b=8 whole via softmax_merge}"} : tensor<4x8xf32>
  // expected-remark @+1 {{rule: [a][b c] -> [a][b c] {a=4, b=2 max via x, c=4 halo(1, 2) via y} linear joint(0) monotone(0)}}
  %3 = math.exp %x {nn.rule = "[a][b c]->[a][b c]{ a=4,b=2 max via x, c = 4 halo(1,2) via y } linear joint(0) monotone(0)"} : tensor<4x8xf32>
  // expected-remark @+1 {{rule: [a][b] -> [a][b] {a=4, b=8}}}
  %4 = math.exp %y {nn.rule = "[a][b] -> [a][b] {a=4, b=8}"} : tensor<?x8xf32>
  // expected-remark @+1 {{rule: [a][b] -> [a][b] {a=4 whole, b=8}}}
  %5 = nn.exp %x {nn.rule = "[a][b] -> [a][b] {a=4 whole, b=8}"} : tensor<4x8xf32>
  return
}

// -----

func.func @f(%z: tensor<f32>, %t: tensor<8x2xi32>) {
  // expected-remark @+1 {{no rule: replicated}}
  %0 = nn.microbatches 4 slices(%t : tensor<8x2xi32>) inits(%z : tensor<f32>) -> tensor<f32> {
  ^bb0(%k: tensor<i32>, %part: tensor<2x2xi32>, %acc: tensor<f32>):
    // expected-remark @+1 {{rule: () -> () {} monotone(0)}}
    %s = nn.exp %acc : tensor<f32>
    nn.yield %s : tensor<f32>
  }
  return
}

// -----

// Roundings: bits are cut as values are; the order of numbers does not pass random bits or magnitudes.
func.func @f(%x: tensor<4x8xf32>, %b: tensor<4x8xi32>, %h: tensor<4x8xbf16>, %k: tensor<4xi32>, %s: tensor<i32>) {
  // expected-remark @+1 {{rule: [d0][d1] -> [d0][d1] {d0=4, d1=8} monotone(0)}}
  %0 = nn.cast %x saturate : tensor<4x8xf32> -> tensor<4x8xbf16>
  // expected-remark @+1 {{rule: [d0][d1], [d0][d1] -> [d0][d1] {d0=4, d1=8}}}
  %1 = nn.cast %x stochastic %b : tensor<4x8xf32>, tensor<4x8xi32> -> tensor<4x8xbf16>
  // expected-remark @+1 {{rule: [d0][d1] -> [d0][d1] {d0=4, d1=8}}}
  %2 = nn.cast %h : tensor<4x8xbf16> -> tensor<4x8xf8E8M0FNU>
  // expected-remark @+1 {{rule: [key], () -> [d0][d1] {d0=4 via offset_random, d1=8 via offset_random, key=4 whole}}}
  %3 = nn.random bits %k, %s : (tensor<4xi32>, tensor<i32>) -> tensor<4x8xi32>
  return
}

// -----

// Payloads: by whole blocks where they fill a dimension. A dimension that is one block is needed whole to be scaled, not to be scaled back.
func.func @f(%x: tensor<8x256xf32>, %y: tensor<130x200xf32>) {
  // expected-remark @+1 {{rule: [d0][d1] -> [d0][d1], [][] {d0=8 whole, d1=256 whole}}}
  %q0, %f0 = nn.quantize %x to f8E4M3FN blocks [0, 0] scale exact : (tensor<8x256xf32>) -> (tensor<8x256xf8E4M3FN>, tensor<1x1xf32>)
  // expected-remark @+1 {{rule: [d0][d1 d1b] -> [d0][d1 d1b], [d0][d1] {d0=8, d1=2, d1b=128 whole}}}
  %q1, %f1 = nn.quantize %x to f8E4M3FN blocks [1, 128] scale exact : (tensor<8x256xf32>) -> (tensor<8x256xf8E4M3FN>, tensor<8x2xf32>)
  // expected-remark @+1 {{rule: [d0][d1] -> [d0][d1], [d0s][d1s] {d0=130 whole, d0s=2 whole, d1=200 whole, d1s=2 whole}}}
  %q2, %f2 = nn.quantize %y to f8E4M3FN blocks [128, 128] scale exact : (tensor<130x200xf32>) -> (tensor<130x200xf8E4M3FN>, tensor<2x2xf32>)
  // expected-remark @+1 {{rule: [d0][d1], [][] -> [d0][d1] {d0=8, d1=256}}}
  %0 = nn.dequantize %q0, %f0 blocks [0, 0] : (tensor<8x256xf8E4M3FN>, tensor<1x1xf32>) -> tensor<8x256xf32>
  // expected-remark @+1 {{rule: [d0][d1 d1b], [d0][d1] -> [d0][d1 d1b] {d0=8, d1=2, d1b=128 whole}}}
  %1 = nn.dequantize %q1, %f1 blocks [1, 128] : (tensor<8x256xf8E4M3FN>, tensor<8x2xf32>) -> tensor<8x256xf32>
  return
}

// -----

func.func @f(%a: tensor<8x256xf8E4M3FN>, %b: tensor<384x256xf8E4M3FN>, %s: tensor<8x2xf32>, %t: tensor<3x2xf32>, %one: tensor<1x1xf32>, %rows: tensor<8x1xf32>) {
  // expected-remark @+1 {{rule: [m][k kb], [n nb][k kb], [m][k], [n][k] -> [m][n nb] {m=8, k=2 sum, kb=128 whole, n=3, nb=128 whole}}}
  %0 = nn.scaled_einsum "mk,nk->mn"(%a, %b) scales(%s, %t) blocks [1, 128], [128, 128]
    : (tensor<8x256xf8E4M3FN>, tensor<384x256xf8E4M3FN>, tensor<8x2xf32>, tensor<3x2xf32>) -> tensor<8x384xf32>
  // expected-remark @+1 {{rule: [m][k], [n][k], [m][], [][] -> [m][n] {m=8, k=256 sum, n=384}}}
  %1 = nn.scaled_einsum "mk,nk->mn"(%a, %b) scales(%rows, %one) blocks [1, 0], [0, 0]
    : (tensor<8x256xf8E4M3FN>, tensor<384x256xf8E4M3FN>, tensor<8x1xf32>, tensor<1x1xf32>) -> tensor<8x384xf32>
  return
}
