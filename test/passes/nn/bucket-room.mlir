// RUN: sheaf-opt %s --nn-bucket-experts="parts=2 room=1.25" | FileCheck %s
// RUN: sheaf-opt %s --nn-bucket-experts="parts=2 room=2" | FileCheck %s --check-prefix=ENOUGH
// RUN: not sheaf-opt %s --nn-bucket-experts="parts=2 room=-1" 2>&1 | FileCheck %s --check-prefix=WRONG
// WRONG: error: nn-bucket-experts: option 'room' is -1.0{{.*}}, expected 0 (as many rows as there can be), or how many times the rows of a part where all have as many

// Eight rows where 12 assignments could give six to each of two parts, for each sample.
// What is more is counted, by sample, and handed on.
// CHECK-LABEL: func.func private @block(
//  CHECK-SAME: -> (tensor<4x6x8xf32>, tensor<4xf32>)
//       CHECK: %[[LOCAL:.*]] = nn.sub %{{.*}} : (tensor<2x4x3xi32>, tensor<2x4x1xi32>) -> tensor<2x4x3xi32>
//       CHECK: nn.min %[[LOCAL]], %{{.*}}
//       CHECK: %[[ROWS:.*]] = nn.slice %[[LOCAL]] offsets [0, 0, 2] sizes [2, 4, 1]
//       CHECK: %[[MORE:.*]] = nn.sub %[[ROWS]],
//       CHECK: %[[ABOVE:.*]] = nn.max %[[MORE]],
//       CHECK: %[[SUM:.*]] = nn.reduce sum %[[ABOVE]] dims [0, 2]
//       CHECK: %[[OVER:.*]] = nn.cast %[[SUM]] : tensor<4xi32> -> tensor<4xf32>
//       CHECK: nn.bucket %{{.*}} -> tensor<2x4x8x8xf32>
//       CHECK: return %{{.*}}, %[[OVER]]
// ENOUGH-LABEL: func.func private @block(
//  ENOUGH-SAME: -> tensor<4x6x8xf32> {
//       ENOUGH: nn.bucket %{{.*}} -> tensor<2x4x12x8xf32>
func.func private @block(%x: tensor<4x6x8xf32>, %e: tensor<4x6x2xi32>, %w: tensor<4x8x8xf32>) -> tensor<4x6x8xf32> {
  %o, %p, %q = nn.expert_sort %e of 4 : (tensor<4x6x2xi32>) -> (tensor<4x12xi32>, tensor<4x6x2xi32>, tensor<4x5xi32>)
  %r = nn.dispatch %x, %o, %p : (tensor<4x6x8xf32>, tensor<4x12xi32>, tensor<4x6x2xi32>) -> tensor<4x12x8xf32>
  %h = nn.grouped_matmul %r, %w, %q transposed : (tensor<4x12x8xf32>, tensor<4x8x8xf32>, tensor<4x5xi32>) -> tensor<4x12x8xf32>
  %y = nn.combine %h, %o, %p : (tensor<4x12x8xf32>, tensor<4x12xi32>, tensor<4x6x2xi32>) -> tensor<4x6x8xf32>
  return %y : tensor<4x6x8xf32>
}

// The loss adds up what its calls tell, over the whole step.
// CHECK-LABEL: func.func @loss(
//  CHECK-SAME: -> (tensor<f32> {nn.result = ["result", "loss"]}, tensor<f32> {nn.result = ["result", "expert_overflow"]})
//       CHECK: %[[A:.*]]:2 = call @block
//       CHECK: %[[B:.*]]:2 = call @block(%[[A]]#0,
//       CHECK: %[[LOSS:.*]] = nn.step_mean
//       CHECK: %[[BOTH:.*]] = nn.add %[[A]]#1, %[[B]]#1
//       CHECK: %[[MEAN:.*]] = nn.step_mean %[[BOTH]] weights %[[ALL:.*]] : (tensor<4xf32>, tensor<4xi1>) -> tensor<f32>
//       CHECK: %[[COUNT:.*]] = nn.step_sum %[[ALL]]
//       CHECK: %[[SUM:.*]] = nn.mul %[[MEAN]], %[[COUNT]]
//       CHECK: return %[[LOSS]], %[[SUM]]
// ENOUGH-LABEL: func.func @loss(
//  ENOUGH-SAME: -> tensor<f32> {
func.func @loss(%x: tensor<4x6x8xf32>, %e: tensor<4x6x2xi32>, %w: tensor<4x8x8xf32>) -> tensor<f32> {
  %a = call @block(%x, %e, %w) : (tensor<4x6x8xf32>, tensor<4x6x2xi32>, tensor<4x8x8xf32>) -> tensor<4x6x8xf32>
  %b = call @block(%a, %e, %w) : (tensor<4x6x8xf32>, tensor<4x6x2xi32>, tensor<4x8x8xf32>) -> tensor<4x6x8xf32>
  %s = nn.reduce sum %b dims [1, 2] : (tensor<4x6x8xf32>) -> tensor<4xf32>
  %all = nn.constant dense<true> : tensor<4xi1>
  %m = nn.step_mean %s weights %all : (tensor<4xf32>, tensor<4xi1>) -> tensor<f32>
  return %m : tensor<f32>
}

// Who has no such result gives what is no number.
// CHECK-LABEL: func.func @logits(
//  CHECK-SAME: -> tensor<4x6x8xf32> {
//       CHECK: %[[Y:.*]]:2 = call @block
//       CHECK: %[[EACH:.*]] = nn.reshape %[[Y]]#1 : tensor<4xf32> -> tensor<4x1x1xf32>
//       CHECK: %[[MISSING:.*]] = nn.compare gt %[[EACH]],
//       CHECK: %[[Z:.*]] = nn.select %[[MISSING]], %{{.*}}, %[[Y]]#0
//       CHECK: return %[[Z]]
func.func @logits(%x: tensor<4x6x8xf32>, %e: tensor<4x6x2xi32>, %w: tensor<4x8x8xf32>) -> tensor<4x6x8xf32> {
  %a = call @block(%x, %e, %w) : (tensor<4x6x8xf32>, tensor<4x6x2xi32>, tensor<4x8x8xf32>) -> tensor<4x6x8xf32>
  return %a : tensor<4x6x8xf32>
}
