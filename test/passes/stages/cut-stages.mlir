// RUN: sheaf-opt %s --split-input-file --pipe-cut-stages=stages=2 | FileCheck %s
// RUN: sheaf-opt %s --split-input-file --nn-differentiate --nn-accumulate="microbatches=2" --symbol-dce \
// RUN:   --canonicalize --cse --pipe-cut-stages="stages=2 layers=2,1" | FileCheck %s --check-prefix=TRAIN
// RUN: sheaf-opt %s --split-input-file --nn-differentiate --nn-accumulate="microbatches=1 loop=true" \
// RUN:   --canonicalize --cse --pipe-cut-stages="stages=3 split=true" \
// RUN:   | FileCheck %s --check-prefix=SPLIT

// Three layers, the head costs as much as one: the first stage has two. The weight of the
// embedding is read by the last stage, too.

func.func private @layer(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> tensor<4x8xf32>
    attributes {nn.layer, no_inline} {
  %p = nn.einsum "ab,bc->ac"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %y = nn.tanh %p : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// CHECK-LABEL: func.func private @loss_stage0_forward(
// CHECK-SAME: %[[T:.*]]: tensor<4x1xi32>
// CHECK-SAME: attributes {no_inline, pipe.part = "F", pipe.stage = 0 : i64}
// CHECK: nn.embedding
// CHECK-COUNT-2: call @layer
// CHECK-NOT: call @layer
// CHECK: return %{{.*}} : tensor<4x8xf32>

// What reads the targets alone is where it is used.
// CHECK-LABEL: func.func private @loss_stage1_forward(
// CHECK-SAME: attributes {no_inline, pipe.part = "F", pipe.stage = 1 : i64}
// CHECK-DAG: call @layer
// CHECK-DAG: nn.compare
// CHECK: nn.step_mean
// CHECK: return %{{.*}} : tensor<f32>

// CHECK-LABEL: func.func @loss(
// CHECK: %[[X:.*]] = call @loss_stage0_forward(
// CHECK: %[[L:.*]] = call @loss_stage1_forward(%{{.*}}%[[X]],
// CHECK-NEXT: return %[[L]]

// TRAIN-LABEL: func.func private @stage0_forward(
// TRAIN-COUNT-2: call @layer_forward
// TRAIN-LABEL: func.func private @stage1_forward(
// TRAIN: call @layer_forward
// TRAIN-LABEL: func.func private @stage1_backward(
// TRAIN: call @layer_backward
// TRAIN-NOT: nn.gather_grad
// TRAIN: return
// TRAIN-LABEL: func.func private @stage0_backward(
// TRAIN-COUNT-2: call @layer_backward
// TRAIN: nn.gather_grad

// In the loop calls alone, and sums: two for the tied weight, added behind the loop.
// TRAIN-LABEL: func.func @gradients(
// TRAIN: %[[SUMS:.*]]:6 = nn.microbatches 2
// TRAIN: %[[F0:.*]]:{{[0-9]+}} = {{.*}}call @stage0_forward(
// TRAIN: call @stage1_forward({{.*}}%[[F0]]#
// TRAIN: %[[B1:.*]]:{{[0-9]+}} = {{.*}}call @stage1_backward(
// TRAIN: %[[B0:.*]]:{{[0-9]+}} = {{.*}}call @stage0_backward(
// TRAIN-COUNT-6: nn.add
// TRAIN-NOT: nn.add
// TRAIN: nn.yield
// TRAIN: %[[TIED:.*]] = nn.add %[[SUMS]]#{{[0-9]}}, %[[SUMS]]#5
// TRAIN: nn.reduce sum_of_squares %[[TIED]]

// SPLIT-LABEL: func.func @gradients(
// SPLIT: call @stage0_forward(
// SPLIT: call @stage1_forward(
// SPLIT: call @stage2_forward(
// SPLIT: call @stage2_input_gradient(
// SPLIT: call @stage1_input_gradient(
// SPLIT: call @stage0_input_gradient(
// SPLIT: call @stage2_weight_gradient(
// SPLIT: call @stage1_weight_gradient(
// SPLIT: call @stage0_weight_gradient(
// SPLIT-NOT: call @
// SPLIT: return
func.func @loss(%tokens: tensor<4x1xi32> {nn.batch = "tokens"}, %targets: tensor<4x1xi32> {nn.batch = "targets"},
    %embed: tensor<8x8xf32> {nn.param = #nn.param<"embed", axes = [vocab, embed], init = normal(0.1)>},
    %a: tensor<8x8xf32> {nn.param = #nn.param<"a", axes = [embed, mlp], init = normal(0.1)>},
    %b: tensor<8x8xf32> {nn.param = #nn.param<"b", axes = [embed, mlp], init = normal(0.1)>},
    %c: tensor<8x8xf32> {nn.param = #nn.param<"c", axes = [embed, mlp], init = normal(0.1)>}) -> tensor<f32> {
  %zero = nn.constant dense<0> : tensor<i32>
  %valid = nn.compare ge %targets, %zero : (tensor<4x1xi32>, tensor<i32>) -> tensor<4x1xi1>
  %e = nn.embedding %embed[%tokens] : (tensor<8x8xf32>, tensor<4x1xi32>) -> tensor<4x1x8xf32>
  %x = nn.reshape %e : tensor<4x1x8xf32> -> tensor<4x8xf32>
  %x1 = call @layer(%x, %a) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %x2 = call @layer(%x1, %b) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %x3 = call @layer(%x2, %c) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %logits = nn.einsum "ae,ve->av"(%x3, %embed) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %rows = nn.reshape %logits : tensor<4x8xf32> -> tensor<4x1x8xf32>
  %l, %lse = nn.cross_entropy %rows, %targets : (tensor<4x1x8xf32>, tensor<4x1xi32>) -> (tensor<4x1xf32>, tensor<4x1xf32>)
  %m = nn.step_mean %l weights %valid : (tensor<4x1xf32>, tensor<4x1xi1>) -> tensor<f32>
  return %m : tensor<f32>
}
