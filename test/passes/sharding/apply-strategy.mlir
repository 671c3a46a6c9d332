// RUN: sheaf-opt %s --split-input-file --dist-apply-strategy="mesh=dp=2,tp=2 zero=1" | FileCheck %s
// RUN: sheaf-opt %s --split-input-file --dist-apply-strategy="mesh=dp=4,tp=2 zero=3 zero-group=2" | FileCheck %s --check-prefix=HYBRID
// RUN: sheaf-opt %s --split-input-file --dist-apply-strategy="mesh=tp=2 sequence-parallel" | FileCheck %s --check-prefix=SEQUENCE
// RUN: sheaf-opt %s --split-input-file --dist-apply-strategy="mesh=dp=2,cp=4,tp=2 zero=1 sequence-parallel" | FileCheck %s --check-prefix=CONTEXT
// RUN: sheaf-opt %s --split-input-file --dist-apply-strategy="mesh=dp=2,cp=4 zero=1 zero-group=2" | FileCheck %s --check-prefix=INNER
// RUN: sheaf-opt %s --split-input-file --dist-apply-strategy="mesh=dp=4,cp=2 zero=1 zero-group=4" | FileCheck %s --check-prefix=OUTER
// RUN: sheaf-opt %s --split-input-file --dist-apply-strategy="mesh=dp=2,cp=4,tp=2 zero=1 sequence-parallel zigzag" | FileCheck %s --check-prefix=ZIGZAG

// Parameters by their axes, state with ZeRO's, the batch over dp; what is no argument of
// an entry is left alone.
// CHECK: dist.mesh @mesh ["dp" = 2 memory, "tp" = 2 memory]
// CHECK-LABEL: func.func @step
// CHECK-SAME: %arg0: tensor<32x16xf32> {dist.because = {tp = "strategy: parameter vocab -> tp"}, dist.sharding = #dist.sharding<[{"tp"}, {}]>, nn.param
// CHECK-SAME: %arg1: tensor<32x16xf32> {dist.because = {dp = "strategy: state largest -> dp", tp = "strategy: parameter vocab -> tp"}, dist.sharding = #dist.sharding<[{"tp", "dp"}, {}]>, nn.state
// CHECK-SAME: %arg2: tensor<8x4xi32> {dist.because = {dp = "strategy: batch batch -> dp"}, dist.sharding = #dist.sharding<[{"dp"}, {}]>, nn.batch
// CHECK-SAME: tensor<32x16xf32> {dist.because = {{{[^}]*}}}, dist.sharding = #dist.sharding<[{"tp"}, {}]>, nn.result = ["parameter", "w"]}
// CHECK-SAME: tensor<32x16xf32> {dist.because = {{{[^}]*}}}, dist.sharding = #dist.sharding<[{"tp", "dp"}, {}]>, nn.result = ["moment1", "w"]}
// The gradient is wanted in shards: the optimizer's state is.
// CHECK: %[[G:.*]] = nn.gather_grad
// CHECK: %[[S:.*]] = dist.constraint %[[G]] <[{"tp", "dp"}, {}]> because "ZeRO-1: optimizer state is sharded, so is the gradient"
// CHECK: nn.sgd %arg0, %[[S]], %arg1
// CHECK-NOT: dist.constraint

// Parameters are gathered in the inner group for each use, but not for the optimizer's.
// HYBRID-LABEL: func.func @step
// HYBRID-SAME: %arg0: tensor<32x16xf32> {dist.because = {"dp:(2)2" = "strategy: weight largest -> dp:(2)2", tp = {{[^}]*}}}, dist.sharding = #dist.sharding<[{"tp", "dp":(2)2}, {}]>, nn.param
// HYBRID: %[[W:.*]] = dist.constraint %arg0 <[{"tp"}, {}]> because "ZeRO-3: weights are gathered for use"
// HYBRID: nn.embedding %[[W]]
// HYBRID: nn.sgd %arg0

// The sequence of the batch over cp, inside of it that of values over tp; state over dp and cp.
// CONTEXT-LABEL: func.func @step
// CONTEXT-SAME: %arg1: tensor<32x16xf32> {dist.because = {cp = "strategy: state largest -> dp, cp", dp = "strategy: state largest -> dp, cp", tp = "strategy: parameter vocab -> tp"}, dist.sharding = #dist.sharding<[{"tp", "dp", "cp"}, {}]>, nn.state
// CONTEXT-SAME: %arg2: tensor<8x4xi32> {dist.because = {cp = "strategy: batch seq -> cp", dp = "strategy: batch batch -> dp"}, dist.sharding = #dist.sharding<[{"dp"}, {"cp"}]>, nn.batch
// CONTEXT: nn.embedding {{.*}}dist.shardings = [#dist.sharding<[{?}, {"cp", "tp", ?} p1, {?}]>]}
// In zig-zag order entries have all of the sequence; what reads it takes its chunks.
// ZIGZAG-LABEL: func.func @step
// ZIGZAG-SAME: %arg2: tensor<8x4xi32> {dist.because = {dp = "strategy: batch batch -> dp"}, dist.sharding = #dist.sharding<[{"dp"}, {}]>, nn.batch
// ZIGZAG: %[[IDS:.*]] = dist.constraint %arg2 <[{"dp"}, {"cp"} zigzag 8]> because "strategy: batch seq -> cp zigzag: the sequence is read in zig-zag order"
// ZIGZAG: nn.embedding %{{.*}}[%[[IDS]]] {{.*}}dist.shardings = [#dist.sharding<[{?}, {"cp", "tp", ?} zigzag 8 p1, {?}]>]}
// A group of ZeRO is the innermost part of dp x cp.
// INNER-LABEL: func.func @step
// INNER-SAME: #dist.sharding<[{"cp":(2)2}, {}]>, nn.state
// OUTER-LABEL: func.func @step
// OUTER-SAME: #dist.sharding<[{"dp":(2)2, "cp"}, {}]>, nn.state

// Values with axes batch, seq and embed.
// SEQUENCE-LABEL: func.func @step
// SEQUENCE: nn.embedding {{.*}} {dist.because = {tp = "strategy: value seq of batch, embed -> tp priority 1"}, dist.shardings = [#dist.sharding<[{?}, {"tp", ?} p1, {?}]>]}
// SEQUENCE: nn.mul {{.*}}, dist.shardings = [#dist.sharding<[{?}, {"tp", ?} p1, {?}]>]}
// SEQUENCE: nn.gather_grad
// SEQUENCE-NOT: dist.shardings
// SEQUENCE: return
func.func @step(%w: tensor<32x16xf32> {nn.param = #nn.param<"w", axes = [vocab, embed], init = constant(0)>},
                %m: tensor<32x16xf32> {nn.state = ["moment1", "w"]},
                %tokens: tensor<8x4xi32> {nn.batch = "tokens"},
                %s: tensor<f32> {nn.scalar = "lr", nn.default = 1.0 : f32})
    -> (tensor<32x16xf32> {nn.result = ["parameter", "w"]}, tensor<32x16xf32> {nn.result = ["moment1", "w"]}) {
  %x = nn.embedding %w[%tokens] : (tensor<32x16xf32>, tensor<8x4xi32>) -> tensor<8x4x16xf32>
  %y = nn.mul %x, %x : tensor<8x4x16xf32>
  %g = nn.gather_grad %y[%tokens] axis 0 : (tensor<8x4x16xf32>, tensor<8x4xi32>) -> tensor<32x16xf32>
  %p, %b = nn.sgd %w, %g, %m lr %s momentum %s decay %s grad_scale %s {nn.role = "optimizer"}
    : (tensor<32x16xf32>, tensor<32x16xf32>, tensor<32x16xf32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<32x16xf32>, tensor<32x16xf32>)
  return %p, %b : tensor<32x16xf32>, tensor<32x16xf32>
}

// -----

// A dimension of three things one after another is cut in whole heads of each.
// CHECK-LABEL: func.func @blocks
// CHECK-SAME: %arg0: tensor<8x24xf32> {{.*}}dist.sharding = #dist.sharding<[{}, {"tp"} blocks 3]>
func.func @blocks(%w: tensor<8x24xf32> {nn.param = #nn.param<"w", axes = [embed, heads], init = constant(0)>}) -> tensor<8x2x4xf32> {
  %0 = nn.reshape %w : tensor<8x24xf32> -> tensor<8x3x2x4xf32>
  %1 = nn.slice %0 offsets [0, 1, 0, 0] sizes [8, 1, 2, 4] : (tensor<8x3x2x4xf32>) -> tensor<8x1x2x4xf32>
  %2 = nn.reshape %1 : tensor<8x1x2x4xf32> -> tensor<8x2x4xf32>
  return %2 : tensor<8x2x4xf32>
}

// -----

// Samples of each of two microbatches.
// CHECK-LABEL: func.func @microbatches
// CHECK-SAME: %arg0: tensor<8x4xi32> {{.*}}dist.sharding = #dist.sharding<[{"dp"} blocks 2, {}]>
func.func @microbatches(%tokens: tensor<8x4xi32> {nn.batch = "tokens"}) {
  nn.microbatches 2 slices(%tokens : tensor<8x4xi32>) {
  ^bb0(%k: tensor<i32>, %part: tensor<4x4xi32>):
    nn.yield
  }
  return
}
