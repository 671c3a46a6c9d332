// RUN: sheaf-opt %s --split-input-file --dist-apply-strategy="zero=3" | FileCheck %s
// A buffer that several entries use lies where a user wrote it in one of them.

dist.mesh @mesh ["dp" = 2, "tp" = 2]

// Optimizer state has ZeRO's axes beside, the parameter has not.
// CHECK-LABEL: func.func @logits
// CHECK-SAME: %arg0: tensor<32x16xf32> {dist.sharding = #dist.sharding<[{}, {"tp"} p1]>, nn.param
// CHECK-SAME: %arg1: tensor<8x4xi32> {dist.sharding = #dist.sharding<[{}, {"dp"}]>, nn.batch
func.func @logits(
    %w: tensor<32x16xf32> {nn.param = #nn.param<"w", axes = [vocab, embed], init = constant(0)>},
    %ids: tensor<8x4xi32> {nn.batch = "tokens"}) -> tensor<8x4x16xf32> {
  %y = nn.embedding %w[%ids] : (tensor<32x16xf32>, tensor<8x4xi32>) -> tensor<8x4x16xf32>
  return %y : tensor<8x4x16xf32>
}
// CHECK-LABEL: func.func @step
// CHECK-SAME: %arg0: tensor<32x16xf32> {dist.sharding = #dist.sharding<[{}, {"tp"} p1]>, nn.param
// CHECK-SAME: %arg1: tensor<32x16xf32> {{{.*}}dist.sharding = #dist.sharding<[{"dp"}, {"tp"}]>, nn.state
// CHECK-SAME: %arg2: tensor<8x4xi32> {dist.sharding = #dist.sharding<[{}, {"dp"}]>, nn.batch
// CHECK-SAME: -> (tensor<32x16xf32> {dist.sharding = #dist.sharding<[{}, {"tp"} p1]>, nn.result = ["parameter", "w"]}
// CHECK-NOT: weights are gathered
func.func @step(
    %w: tensor<32x16xf32> {nn.param = #nn.param<"w", axes = [vocab, embed], init = constant(0)>,
                           dist.sharding = #dist.sharding<[{}, {"tp"} p1]>},
    %v: tensor<32x16xf32> {nn.state = ["moment1", "w"]},
    %ids: tensor<8x4xi32> {nn.batch = "tokens", dist.sharding = #dist.sharding<[{}, {"dp"}]>})
    -> (tensor<32x16xf32> {nn.result = ["parameter", "w"]}, tensor<32x16xf32> {nn.result = ["moment1", "w"]},
        tensor<8x4x16xf32>) {
  %y = nn.embedding %w[%ids] : (tensor<32x16xf32>, tensor<8x4xi32>) -> tensor<8x4x16xf32>
  return %w, %v, %y : tensor<32x16xf32>, tensor<32x16xf32>, tensor<8x4x16xf32>
}

// -----

// An open dimension takes what the table gives, the same in all entries.
dist.mesh @mesh ["dp" = 2, "tp" = 2]
// CHECK-LABEL: func.func @a
// CHECK-SAME: %arg0: tensor<32x16xf32> {dist.sharding = #dist.sharding<[{"tp"}, {"dp"}]>, nn.param
func.func @a(
    %w: tensor<32x16xf32> {nn.param = #nn.param<"w", axes = [vocab, embed], init = constant(0)>,
                           dist.sharding = #dist.sharding<[{?}, {"dp"}]>}) -> tensor<32x16xf32> {
  return %w : tensor<32x16xf32>
}
// CHECK-LABEL: func.func @b
// CHECK-SAME: %arg0: tensor<32x16xf32> {dist.sharding = #dist.sharding<[{"tp"}, {"dp"}]>, nn.param
func.func @b(
    %w: tensor<32x16xf32> {nn.param = #nn.param<"w", axes = [vocab, embed], init = constant(0)>}) -> tensor<32x16xf32> {
  return %w : tensor<32x16xf32>
}
