// RUN: sheaf-opt %s --dist-apply-strategy="mesh=dp=4 expert-parallel=2" | FileCheck %s
// RUN: not sheaf-opt %s --dist-apply-strategy="mesh=dp=4 expert-parallel=3" 2>&1 | FileCheck %s --check-prefix=THIRDS

// Experts over the inner devices of dp.
// CHECK: func.func @step
// CHECK-SAME: {dist.because = {{{.*}} = "strategy: parameter expert -> dp:(2)2"}, dist.sharding = #dist.sharding<[{"dp":(2)2}, {}, {}]>, nn.param
// THIRDS: error: dist-apply-strategy: expert-parallel is 3, which does not divide the 4 devices of dp; nearest: 2 or 4
func.func @step(%w: tensor<4x8x8xf32> {nn.param = #nn.param<"up", axes = [expert, mlp, embed], init = normal(0.1)>},
    %x: tensor<8x4x8xf32>) -> tensor<8x4x8xf32> {
  return %x : tensor<8x4x8xf32>
}
