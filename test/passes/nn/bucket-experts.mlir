// RUN: sheaf-opt %s --split-input-file --nn-bucket-experts=parts=2 | FileCheck %s

// Products and what lies between them are done by parts; the sum is of rows in their order.
// CHECK-LABEL: func.func @experts(
//  CHECK-SAME: %[[X:.*]]: tensor<4x6x8xf32>, %[[E:.*]]: tensor<4x6x2xi32>, %[[UP:.*]]: tensor<4x5x8xf32>, %[[DOWN:.*]]: tensor<4x8x5xf32>)
//       CHECK: %[[ORDER:.*]], %[[POSITION:.*]], %[[OFFSETS:.*]] = nn.expert_sort %[[E]] of 4
//       CHECK: %[[ROWS:.*]] = nn.dispatch %[[X]], %[[ORDER]], %[[POSITION]]
//       CHECK: %[[EACH:.*]] = nn.gather %[[OFFSETS]][%{{.*}}] axis 1 : (tensor<4x5xi32>, tensor<2x3xi32>) -> tensor<4x2x3xi32>
//       CHECK: %[[TURNED:.*]] = nn.transpose %[[EACH]] [1, 0, 2]
//       CHECK: %[[FROM:.*]] = nn.sub %[[TURNED]], %{{.*}} : (tensor<2x4x3xi32>, tensor<2x4x1xi32>) -> tensor<2x4x3xi32>
//       CHECK: %[[LOCAL:.*]] = nn.min %[[FROM]], %{{.*}} : (tensor<2x4x3xi32>, tensor<i32>) -> tensor<2x4x3xi32>
//       CHECK: %[[PARTS:.*]] = nn.bucket %[[ROWS]], %[[OFFSETS]] : (tensor<4x12x8xf32>, tensor<4x5xi32>) -> tensor<2x4x12x8xf32>
//       CHECK: %[[UPS:.*]] = nn.reshape %[[UP]] : tensor<4x5x8xf32> -> tensor<2x2x5x8xf32>
//       CHECK: %[[HIGH:.*]] = nn.grouped_matmul %[[PARTS]], %[[UPS]], %[[LOCAL]] transposed : (tensor<2x4x12x8xf32>, tensor<2x2x5x8xf32>, tensor<2x4x3xi32>) -> tensor<2x4x12x5xf32>
//       CHECK: %[[ACTIVE:.*]] = nn.silu %[[HIGH]] : tensor<2x4x12x5xf32>
//       CHECK: %[[SCALED:.*]] = nn.mul %[[ACTIVE]], %{{.*}} : (tensor<2x4x12x5xf32>, tensor<f32>) -> tensor<2x4x12x5xf32>
//       CHECK: %[[DOWNS:.*]] = nn.reshape %[[DOWN]] : tensor<4x8x5xf32> -> tensor<2x2x8x5xf32>
//       CHECK: %[[LOW:.*]] = nn.grouped_matmul %[[SCALED]], %[[DOWNS]], %[[LOCAL]] transposed
//       CHECK: %[[BACK:.*]] = nn.unbucket %[[LOW]], %[[OFFSETS]] : (tensor<2x4x12x8xf32>, tensor<4x5xi32>) -> tensor<4x12x8xf32>
//       CHECK: %[[SUM:.*]] = nn.combine %[[BACK]], %[[ORDER]], %[[POSITION]]
//       CHECK: return %[[SUM]]
func.func @experts(%x: tensor<4x6x8xf32>, %e: tensor<4x6x2xi32>, %up: tensor<4x5x8xf32>, %down: tensor<4x8x5xf32>) -> tensor<4x6x8xf32> {
  %two = nn.constant dense<2.0> : tensor<f32>
  %o, %p, %q = nn.expert_sort %e of 4 : (tensor<4x6x2xi32>) -> (tensor<4x12xi32>, tensor<4x6x2xi32>, tensor<4x5xi32>)
  %r = nn.dispatch %x, %o, %p : (tensor<4x6x8xf32>, tensor<4x12xi32>, tensor<4x6x2xi32>) -> tensor<4x12x8xf32>
  %h = nn.grouped_matmul %r, %up, %q transposed : (tensor<4x12x8xf32>, tensor<4x5x8xf32>, tensor<4x5xi32>) -> tensor<4x12x5xf32>
  %a = nn.silu %h : tensor<4x12x5xf32>
  %s = nn.mul %a, %two : (tensor<4x12x5xf32>, tensor<f32>) -> tensor<4x12x5xf32>
  %l = nn.grouped_matmul %s, %down, %q transposed : (tensor<4x12x5xf32>, tensor<4x8x5xf32>, tensor<4x5xi32>) -> tensor<4x12x8xf32>
  %y = nn.combine %l, %o, %p : (tensor<4x12x8xf32>, tensor<4x12xi32>, tensor<4x6x2xi32>) -> tensor<4x6x8xf32>
  return %y : tensor<4x6x8xf32>
}

// -----

// A part has no more rows than its experts have room for; who takes the rows as they are gets them.
// CHECK-LABEL: func.func @bounded(
//       CHECK: nn.bucket %{{.*}} -> tensor<2x4x4x8xf32>
//       CHECK: %[[P:.*]] = nn.grouped_matmul
//       CHECK: %[[B:.*]] = nn.unbucket %[[P]]
//       CHECK: %[[S:.*]] = nn.softmax %[[B]] dim 2 : tensor<4x8x5xf32>
//       CHECK: return %[[S]], %[[B]]
func.func @bounded(%x: tensor<4x6x8xf32>, %e: tensor<4x6x2xi32>, %up: tensor<4x5x8xf32>) -> (tensor<4x8x5xf32>, tensor<4x8x5xf32>) {
  %o, %p, %q = nn.expert_sort %e of 4 capacity 2 : (tensor<4x6x2xi32>) -> (tensor<4x8xi32>, tensor<4x6x2xi32>, tensor<4x5xi32>)
  %r = nn.dispatch %x, %o, %p : (tensor<4x6x8xf32>, tensor<4x8xi32>, tensor<4x6x2xi32>) -> tensor<4x8x8xf32>
  %h = nn.grouped_matmul %r, %up, %q transposed : (tensor<4x8x8xf32>, tensor<4x5x8xf32>, tensor<4x5xi32>) -> tensor<4x8x5xf32>
  %s = nn.softmax %h dim 2 : tensor<4x8x5xf32>
  return %s, %h : tensor<4x8x5xf32>, tensor<4x8x5xf32>
}
