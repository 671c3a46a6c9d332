// RUN: sheaf-opt %s --split-input-file --nn-prepare-evaluation=functions=loss,logits | FileCheck %s

// Dropout and the key that only it read go; layers that training calls are copied,
// once.
// CHECK-LABEL: func.func private @layer(
// CHECK: nn.dropout
// CHECK-LABEL: func.func @loss(
// CHECK-SAME: %[[X:.*]]: tensor<4x8xf32>) -> (tensor<4x8xf32> {nn.result = ["result", "loss"]})
// CHECK: call @layer_evaluation(%[[X]]) :
// CHECK-LABEL: func.func @logits(
// CHECK: call @layer_evaluation(
// CHECK-LABEL: func.func @train(
// CHECK: call @layer(
// CHECK-LABEL: func.func private @layer_evaluation(
// CHECK-SAME: %{{.*}}: tensor<4x8xf32>) -> tensor<4x8xf32> attributes {nn.layer}
// CHECK-NOT: nn.dropout
func.func private @layer(%x: tensor<4x8xf32>, %key: tensor<4xi32>) -> tensor<4x8xf32> attributes {nn.layer} {
  %s = nn.constant dense<0> : tensor<i32>
  %y = nn.dropout %x, %key, %s rate 0.1 : (tensor<4x8xf32>, tensor<4xi32>, tensor<i32>) -> tensor<4x8xf32>
  %z = nn.exp %y : tensor<4x8xf32>
  return %z : tensor<4x8xf32>
}
func.func @loss(%x: tensor<4x8xf32>, %key: tensor<4xi32> {nn.rng}) -> tensor<4x8xf32> {
  %y = call @layer(%x, %key) : (tensor<4x8xf32>, tensor<4xi32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
func.func @logits(%x: tensor<4x8xf32>, %key: tensor<4xi32> {nn.rng}) -> tensor<4x8xf32> {
  %y = call @layer(%x, %key) : (tensor<4x8xf32>, tensor<4xi32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
func.func @train(%x: tensor<4x8xf32>, %key: tensor<4xi32> {nn.rng}) -> tensor<4x8xf32> {
  %y = call @layer(%x, %key) : (tensor<4x8xf32>, tensor<4xi32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

// A layer that nobody else calls keeps its name; what has no dropout is left alone.
// CHECK-LABEL: func.func @loss(
// CHECK: call @plain(
// CHECK: call @layer(%{{.*}}) : (tensor<4x8xf32>)
// CHECK-NOT: nn.dropout
// CHECK-NOT: _evaluation
func.func private @plain(%x: tensor<4x8xf32>) -> tensor<4x8xf32> attributes {nn.layer} {
  return %x : tensor<4x8xf32>
}
func.func private @layer(%x: tensor<4x8xf32>, %key: tensor<4xi32>) -> tensor<4x8xf32> attributes {nn.layer} {
  %s = nn.constant dense<0> : tensor<i32>
  %y = nn.dropout %x, %key, %s rate 0.1 : (tensor<4x8xf32>, tensor<4xi32>, tensor<i32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
func.func @loss(%x: tensor<4x8xf32>, %key: tensor<4xi32> {nn.rng}) -> tensor<4x8xf32> {
  %p = call @plain(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = call @layer(%p, %key) : (tensor<4x8xf32>, tensor<4xi32>) -> tensor<4x8xf32>
  %z = call @layer(%y, %key) : (tensor<4x8xf32>, tensor<4xi32>) -> tensor<4x8xf32>
  return %z : tensor<4x8xf32>
}
func.func @logits(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  return %x : tensor<4x8xf32>
}
