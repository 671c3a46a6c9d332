// RUN: sheaf-opt %s --nn-add-initializer | FileCheck %s

// Normal numbers are drawn in f32 in every precision; frozen parameters count, too.
// CHECK-LABEL: func.func @init(
// CHECK-SAME: %[[KEY:.*]]: tensor<4xi32> {nn.rng}) -> (tensor<2x3xf64> {nn.result = ["parameter", "w"]}, tensor<3xf32> {nn.result = ["parameter", "b"]}, tensor<5xbf16> {nn.result = ["parameter", "f"]})
// CHECK: %[[S0:.*]] = nn.constant dense<1073741824> : tensor<i32>
// CHECK: %[[R0:.*]] = nn.random normal %[[KEY]], %[[S0]] : (tensor<4xi32>, tensor<i32>) -> tensor<2x3xf32>
// CHECK: %[[N0:.*]] = nn.mul %[[R0]],
// CHECK: %[[W:.*]] = nn.cast %[[N0]] : tensor<2x3xf32> -> tensor<2x3xf64>
// CHECK: %[[B:.*]] = nn.constant dense<1.500000e+00> : tensor<3xf32>
// CHECK: nn.constant dense<1073741826> : tensor<i32>
// CHECK: %[[F:.*]] = nn.cast {{.*}} -> tensor<5xbf16>
// CHECK: return %[[W]], %[[B]], %[[F]]
func.func @loss(%w: tensor<2x3xf64> {nn.param = #nn.param<"w", axes = [_, _], init = normal(0.02)>},
                %t: tensor<4x8xi32> {nn.batch = "tokens"},
                %b: tensor<3xf32> {nn.param = #nn.param<"b", axes = [_], init = constant(1.5)>},
                %f: tensor<5xbf16> {nn.param = #nn.param<"f", axes = [_], init = normal(1), frozen>}) {
  return
}
