// RUN: sheaf-opt %s --exec-cut-products=parts=2 | FileCheck %s
// RUN: sheaf-opt %s --exec-cut-products=parts=3 | FileCheck %s --check-prefix=WHOLE
// RUN: sheaf-opt %s --exec-cut-products | FileCheck %s --check-prefix=WHOLE
// RUN: sheaf-opt %s --exec-cut-products=cluster=%sheaf_source/examples/clusters/h100.json | FileCheck %s --check-prefix=COST
// RUN: not sheaf-opt %s --exec-cut-products=parts=-1 2>&1 | FileCheck %s --check-prefix=ERROR
// RUN: not sheaf-opt %s --exec-cut-products=cluster=none.json 2>&1 | FileCheck %s --check-prefix=CLUSTER

// ERROR: exec-cut-products: option 'parts' is -1, expected at least 0
// CLUSTER: exec-cut-products: {{.*}}none.json

// Rows do not divide, or nothing says that it pays.
// WHOLE-LABEL: func.func @gather
// WHOLE: exec.transfer all_gather {{.*}} -> tensor<2x512x64xf32>
// WHOLE-NOT: exec.transfer
// WHOLE: return

// Two products read what is gathered, of which the second's weights come between; a gradient of weights reads all of it.
// CHECK-LABEL: func.func @gather
// CHECK: %[[X0:.*]] = nn.slice %{{.*}} offsets [0, 0, 0, 0] sizes [2, 1, 128, 64]
// CHECK: %[[G0:.*]] = exec.transfer all_gather %{{.*}} join 2 about {parts = 2 : i64} : (tensor<2x128x64xf32>) -> tensor<2x256x64xf32>
// CHECK: nn.slice %{{.*}} offsets [0, 0, 128, 0] sizes [2, 1, 128, 64]
// CHECK: %[[G1:.*]] = exec.transfer all_gather
// CHECK: %[[T:.*]] = nn.transpose %arg2
// CHECK: %[[Y0:.*]] = nn.einsum "bse,ef->bsf"(%[[G0]], %arg1)
// CHECK: %[[Z0:.*]] = nn.einsum "fe,bse->bsf"(%[[T]], %[[G0]])
// CHECK: %[[Y1:.*]] = nn.einsum "bse,ef->bsf"(%[[G1]], %arg1)
// CHECK: %[[Z1:.*]] = nn.einsum "fe,bse->bsf"(%[[T]], %[[G1]])
// CHECK: %[[P0:.*]] = nn.reshape %[[Y0]] {{.*}} -> tensor<2x2x128x96xf32>
// CHECK: %[[P1:.*]] = nn.reshape %[[Y1]] {{.*}} -> tensor<2x2x128x96xf32>
// CHECK: %[[P:.*]] = nn.concatenate %[[P0]], %[[P1]] dim 2 {{.*}} -> tensor<2x2x256x96xf32>
// CHECK: nn.reshape %[[P]] {{.*}} -> tensor<2x512x96xf32>
// CHECK: %[[W:.*]] = nn.concatenate {{.*}} dim 2 {nn.role = "weight_gradient"}
// CHECK: %[[ALL:.*]] = nn.reshape %[[W]] {nn.role = "weight_gradient"} {{.*}} -> tensor<2x512x64xf32>
// CHECK: nn.einsum "bse,bsf->ef"(%[[ALL]], %arg3) {nn.role = "weight_gradient"}
func.func @gather(%x: tensor<2x256x64xf32>, %w: tensor<64x96xf32>, %v: tensor<64x96xf32>, %d: tensor<2x512x96xf32>)
    -> (tensor<2x512x96xf32>, tensor<2x512x96xf32>, tensor<64x96xf32>) {
  %g = exec.transfer all_gather %x sizes [2] strides [1] join 2 about {} : (tensor<2x256x64xf32>) -> tensor<2x512x64xf32>
  %y = nn.einsum "bse,ef->bsf"(%g, %w) : (tensor<2x512x64xf32>, tensor<64x96xf32>) -> tensor<2x512x96xf32>
  %n = nn.neg %y : tensor<2x512x96xf32>
  %t = nn.transpose %v [1, 0] : (tensor<64x96xf32>) -> tensor<96x64xf32>
  %z = nn.einsum "fe,bse->bsf"(%t, %g) : (tensor<96x64xf32>, tensor<2x512x64xf32>) -> tensor<2x512x96xf32>
  %e = nn.einsum "bse,bsf->ef"(%g, %d) {nn.role = "weight_gradient"} : (tensor<2x512x64xf32>, tensor<2x512x96xf32>) -> tensor<64x96xf32>
  return %n, %z, %e : tensor<2x512x96xf32>, tensor<2x512x96xf32>, tensor<64x96xf32>
}

// A sum of two products, rounded; the second is multiplied in parts, too, what is no product is cut where it lies.
// CHECK-LABEL: func.func @scatter
// CHECK: %[[A0:.*]] = nn.einsum {{.*}} -> tensor<2x256x64xf32>
// CHECK: %[[B0:.*]] = nn.einsum {{.*}} -> tensor<2x256x64xf32>
// CHECK: %[[S0:.*]] = nn.add %[[A0]], %[[B0]]
// CHECK: %[[C0:.*]] = nn.cast %{{.*}} -> tensor<2x256x64xbf16>
// CHECK: %[[R0:.*]] = exec.transfer reduce_scatter by sum %[[C0]] {{.*}} -> tensor<2x128x64xbf16>
// CHECK: nn.einsum
// CHECK: %[[R1:.*]] = exec.transfer reduce_scatter
// CHECK: nn.concatenate {{.*}} dim 2
// CHECK-NOT: nn.einsum {{.*}} -> tensor<2x512x64xf32>
// CHECK: return
func.func @scatter(%a: tensor<2x512x96xf32>, %b: tensor<2x512x96xf32>, %w: tensor<96x64xf32>, %o: tensor<2x512x64xf32>) -> tensor<2x256x64xbf16> {
  %y = nn.einsum "bsf,fe->bse"(%a, %w) : (tensor<2x512x96xf32>, tensor<96x64xf32>) -> tensor<2x512x64xf32>
  %z = nn.einsum "bsf,fe->bse"(%b, %w) : (tensor<2x512x96xf32>, tensor<96x64xf32>) -> tensor<2x512x64xf32>
  %s = nn.add %y, %z : tensor<2x512x64xf32>
  %m = nn.mul %s, %o : tensor<2x512x64xf32>
  %c = nn.cast %m : tensor<2x512x64xf32> -> tensor<2x512x64xbf16>
  %r = exec.transfer reduce_scatter by sum %c sizes [2] strides [1] cut 2 about {} : (tensor<2x512x64xbf16>) -> tensor<2x256x64xbf16>
  return %r : tensor<2x256x64xbf16>
}

// What something else reads, a sum over rows, and too few rows stay whole.
// CHECK-LABEL: func.func @whole
// CHECK-COUNT-3: exec.transfer
// CHECK-NOT: exec.transfer
// CHECK: return
func.func @whole(%a: tensor<512x96xf32>, %w: tensor<96x64xf32>, %d: tensor<512x64xf32>, %u: tensor<256x96xf32>)
    -> (tensor<256x64xf32>, tensor<512x64xf32>, tensor<48x64xf32>, tensor<128x64xf32>) {
  %y = nn.einsum "sf,fe->se"(%a, %w) : (tensor<512x96xf32>, tensor<96x64xf32>) -> tensor<512x64xf32>
  %r = exec.transfer reduce_scatter by sum %y sizes [2] strides [1] about {} : (tensor<512x64xf32>) -> tensor<256x64xf32>
  %g = nn.einsum "sf,se->fe"(%a, %d) : (tensor<512x96xf32>, tensor<512x64xf32>) -> tensor<96x64xf32>
  %q = exec.transfer reduce_scatter by sum %g sizes [2] strides [1] about {} : (tensor<96x64xf32>) -> tensor<48x64xf32>
  %z = nn.einsum "sf,fe->se"(%u, %w) : (tensor<256x96xf32>, tensor<96x64xf32>) -> tensor<256x64xf32>
  %p = exec.transfer reduce_scatter by sum %z sizes [2] strides [1] about {} : (tensor<256x64xf32>) -> tensor<128x64xf32>
  return %r, %y, %q, %p : tensor<256x64xf32>, tensor<512x64xf32>, tensor<48x64xf32>, tensor<128x64xf32>
}

// A gradient of weights in front of a sum that does not need it comes behind.
// CHECK-LABEL: func.func @delay
// CHECK: nn.neg
// CHECK-NEXT: exec.transfer reduce_scatter
// CHECK-NEXT: nn.einsum {{.*}}weight_gradient
// By cost, 16384 rows of 4096 are multiplied in parts; the small ones above stay whole.
// COST-LABEL: func.func @gather
// COST-COUNT-1: exec.transfer
// COST-LABEL: func.func @delay
// COST-LABEL: func.func @large
// COST: exec.transfer all_gather {{.*}}parts = {{[2-8]}}
func.func @delay(%x: tensor<64x32xf32>, %d: tensor<64x32xf32>) -> (tensor<32x32xf32>, tensor<32x32xf32>) {
  %g = nn.einsum "sf,se->fe"(%x, %d) {nn.role = "weight_gradient"} : (tensor<64x32xf32>, tensor<64x32xf32>) -> tensor<32x32xf32>
  %n = nn.neg %d {nn.role = "input_gradient"} : tensor<64x32xf32>
  %r = exec.transfer reduce_scatter by sum %n sizes [2] strides [1] about {} {nn.role = "input_gradient"} : (tensor<64x32xf32>) -> tensor<32x32xf32>
  return %r, %g : tensor<32x32xf32>, tensor<32x32xf32>
}
func.func @large(%x: tensor<2048x4096xbf16>, %w: tensor<4096x8192xbf16>) -> tensor<16384x8192xbf16> {
  %g = exec.transfer all_gather %x sizes [8] strides [1] about {} : (tensor<2048x4096xbf16>) -> tensor<16384x4096xbf16>
  %y = nn.einsum "se,ef->sf"(%g, %w) : (tensor<16384x4096xbf16>, tensor<4096x8192xbf16>) -> tensor<16384x8192xbf16>
  return %y : tensor<16384x8192xbf16>
}

// A product of what another gives of the same gather has it whole; a transfer may be about nothing.
// CHECK-LABEL: func.func @chain
// CHECK-COUNT-2: exec.transfer all_gather %{{.*}} about {parts = 2 : i64}
// CHECK: %[[Y:.*]] = nn.reshape {{.*}} -> tensor<512x512xf32>
// CHECK: nn.einsum "se,st->et"(%{{.*}}, %[[Y]])
func.func @chain(%x: tensor<256x64xf32>, %w: tensor<64x512xf32>) -> tensor<64x512xf32> {
  %g = exec.transfer all_gather %x sizes [2] strides [1] : (tensor<256x64xf32>) -> tensor<512x64xf32>
  %y = nn.einsum "se,ef->sf"(%g, %w) : (tensor<512x64xf32>, tensor<64x512xf32>) -> tensor<512x512xf32>
  %z = nn.einsum "se,st->et"(%g, %y) : (tensor<512x64xf32>, tensor<512x512xf32>) -> tensor<64x512xf32>
  return %z : tensor<64x512xf32>
}
// CHECK-LABEL: func.func @chained
// CHECK: return
func.func @chained(%x: tensor<256x512xf32>, %w: tensor<512x512xf32>) -> (tensor<512x512xf32>, tensor<512x512xf32>) {
  %g = exec.transfer all_gather %x sizes [2] strides [1] : (tensor<256x512xf32>) -> tensor<512x512xf32>
  %y = nn.einsum "se,ef->sf"(%g, %w) : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
  %n = nn.neg %y : tensor<512x512xf32>
  %z = nn.einsum "se,ef->sf"(%g, %n) : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
  return %n, %z : tensor<512x512xf32>, tensor<512x512xf32>
}

// What a product needs of a long way is looked at once, and not too far.
// CHECK-LABEL: func.func @diamonds
// CHECK: return
func.func @diamonds(%x: tensor<256x512xf32>, %w: tensor<512x512xf32>, %d0: tensor<512x512xf32>) -> (tensor<512x512xf32>, tensor<512x512xf32>) {
  %g = exec.transfer all_gather %x sizes [2] strides [1] : (tensor<256x512xf32>) -> tensor<512x512xf32>
  %y = nn.einsum "se,ef->sf"(%g, %w) : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
  %d1 = nn.add %d0, %d0 : tensor<512x512xf32>
  %d2 = nn.add %d1, %d1 : tensor<512x512xf32>
  %d3 = nn.add %d2, %d2 : tensor<512x512xf32>
  %d4 = nn.add %d3, %d3 : tensor<512x512xf32>
  %d5 = nn.add %d4, %d4 : tensor<512x512xf32>
  %d6 = nn.add %d5, %d5 : tensor<512x512xf32>
  %d7 = nn.add %d6, %d6 : tensor<512x512xf32>
  %d8 = nn.add %d7, %d7 : tensor<512x512xf32>
  %d9 = nn.add %d8, %d8 : tensor<512x512xf32>
  %d10 = nn.add %d9, %d9 : tensor<512x512xf32>
  %d11 = nn.add %d10, %d10 : tensor<512x512xf32>
  %d12 = nn.add %d11, %d11 : tensor<512x512xf32>
  %d13 = nn.add %d12, %d12 : tensor<512x512xf32>
  %d14 = nn.add %d13, %d13 : tensor<512x512xf32>
  %d15 = nn.add %d14, %d14 : tensor<512x512xf32>
  %d16 = nn.add %d15, %d15 : tensor<512x512xf32>
  %d17 = nn.add %d16, %d16 : tensor<512x512xf32>
  %d18 = nn.add %d17, %d17 : tensor<512x512xf32>
  %d19 = nn.add %d18, %d18 : tensor<512x512xf32>
  %d20 = nn.add %d19, %d19 : tensor<512x512xf32>
  %d21 = nn.add %d20, %d20 : tensor<512x512xf32>
  %d22 = nn.add %d21, %d21 : tensor<512x512xf32>
  %d23 = nn.add %d22, %d22 : tensor<512x512xf32>
  %d24 = nn.add %d23, %d23 : tensor<512x512xf32>
  %d25 = nn.add %d24, %d24 : tensor<512x512xf32>
  %d26 = nn.add %d25, %d25 : tensor<512x512xf32>
  %d27 = nn.add %d26, %d26 : tensor<512x512xf32>
  %d28 = nn.add %d27, %d27 : tensor<512x512xf32>
  %d29 = nn.add %d28, %d28 : tensor<512x512xf32>
  %d30 = nn.add %d29, %d29 : tensor<512x512xf32>
  %z = nn.einsum "se,ef->sf"(%g, %d30) : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
  return %y, %z : tensor<512x512xf32>, tensor<512x512xf32>
}

// A sum that another block reads.
// COST-LABEL: func.func @blocks
// COST: exec.transfer reduce_scatter
func.func @blocks(%a: tensor<512x96xf32>, %w: tensor<96x64xf32>) -> tensor<256x64xf32> {
  %y = nn.einsum "sf,fe->se"(%a, %w) : (tensor<512x96xf32>, tensor<96x64xf32>) -> tensor<512x64xf32>
  %r = exec.transfer reduce_scatter by sum %y sizes [2] strides [1] : (tensor<512x64xf32>) -> tensor<256x64xf32>
  cf.br ^bb1
^bb1:
  %n = nn.neg %r : tensor<256x64xf32>
  return %n : tensor<256x64xf32>
}
