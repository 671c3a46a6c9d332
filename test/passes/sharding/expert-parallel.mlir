// RUN: sheaf-opt %s --dist-apply-strategy="mesh=dp=4 expert-parallel=2" | FileCheck %s
// RUN: not sheaf-opt %s --dist-apply-strategy="mesh=dp=4 expert-parallel=3" 2>&1 | FileCheck %s --check-prefix=THIRDS
// RUN: sheaf-opt %s --dist-apply-strategy="mesh=dp=4,cp=2 expert-parallel=2" | FileCheck %s --check-prefix=INSIDE
// RUN: sheaf-opt %s --dist-apply-strategy="mesh=dp=4,cp=2 expert-parallel=4 zero=1" | FileCheck %s --check-prefix=BOTH
// RUN: not sheaf-opt %s --dist-apply-strategy="mesh=dp=3,cp=4 expert-parallel=6" 2>&1 | FileCheck %s --check-prefix=NEITHER

// Experts over the inner devices of dp, with cp over those of cp first.
// CHECK: func.func @step
// CHECK-SAME: {dist.because = {{{.*}} = "strategy: parameter expert -> dp:(2)2"}, dist.sharding = #dist.sharding<[{"dp":(2)2}, {}, {}]>, nn.param
// INSIDE: {dist.because = {{{.*}} = "strategy: parameter expert -> cp"}, dist.sharding = #dist.sharding<[{"cp"}, {}, {}]>, nn.param
// BOTH: dist.sharding = #dist.sharding<[{"cp", "dp":(2)2}, {}, {}]>, nn.param
// THIRDS: error: dist-apply-strategy: expert-parallel is 3, which does not divide the 4 devices of dp; nearest: 2 or 4
// NEITHER: error: dist-apply-strategy: expert-parallel is 6, which is no innermost part of the 12 devices of dp and cp; nearest: 4 or 12
func.func @step(%w: tensor<4x8x8xf32> {nn.param = #nn.param<"up", axes = [expert, mlp, embed], init = normal(0.1)>},
    %x: tensor<8x4x8xf32>) -> tensor<8x4x8xf32> {
  return %x : tensor<8x4x8xf32>
}
