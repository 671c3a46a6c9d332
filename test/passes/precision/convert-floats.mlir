// RUN: sheaf-opt %s --nn-convert-floats | FileCheck %s

// Arguments, results, constants (dense and splat) and everything between them.
// CHECK-LABEL: func.func @all(
// CHECK-SAME: %[[X:.*]]: tensor<2xf64>, %[[I:.*]]: tensor<2xi32>) -> tensor<2xf64>
// CHECK-DAG: nn.constant dense<[5.000000e-01, 2.500000e-01]> : tensor<2xf64>
// CHECK-DAG: nn.constant dense<2.000000e+00> : tensor<f64>
// CHECK: nn.mul %[[X]], %{{.*}} : tensor<2xf64>
// CHECK-NOT: f32
func.func @all(%x: tensor<2xf32>, %i: tensor<2xi32>) -> tensor<2xf32> {
  %c = nn.constant dense<[0.5, 0.25]> : tensor<2xf32>
  %two = nn.constant dense<2.0> : tensor<f32>
  %a = nn.mul %x, %c : tensor<2xf32>
  %b = nn.mul %a, %two : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %f = nn.cast %i : tensor<2xi32> -> tensor<2xf32>
  %y = nn.add %b, %f : tensor<2xf32>
  %z = func.call @layer(%y) : (tensor<2xf32>) -> tensor<2xf32>
  return %z : tensor<2xf32>
}
// CHECK-LABEL: func.func private @layer(
// CHECK-SAME: tensor<2xf64>) -> tensor<2xf64>
func.func private @layer(%x: tensor<2xf32>) -> tensor<2xf32> {
  return %x : tensor<2xf32>
}

// Loops, too; integers and 8-bit floats stay.
// CHECK-LABEL: func.func @loop(
// CHECK-SAME: tensor<3xf8E4M3FN>
// CHECK: nn.microbatches
// CHECK: ^bb0(%{{.*}}: tensor<i32>, %{{.*}}: tensor<f64>)
func.func @loop(%init: tensor<f32>, %b: tensor<3xf8E4M3FN>) -> (tensor<f32>, tensor<3xf8E4M3FN>) {
  %r = nn.microbatches 2 inits(%init : tensor<f32>) -> tensor<f32> {
  ^bb0(%k: tensor<i32>, %acc: tensor<f32>):
    %n = nn.add %acc, %acc : tensor<f32>
    nn.yield %n : tensor<f32>
  }
  return %r, %b : tensor<f32>, tensor<3xf8E4M3FN>
}

// Types that an op relates stay related: f16 and bf16 change with f32, and casts
// between them are nothing.
// CHECK-LABEL: func.func @mixed(
// CHECK-SAME: tensor<2x3x4x8xf64>
// CHECK-NOT: nn.cast
// CHECK: nn.attention {{.*}} -> (tensor<2x3x4x8xf64>, tensor<2x3x4xf64>)
func.func @mixed(%q: tensor<2x3x4x8xf32>) -> (tensor<2x3x4x8xf16>, tensor<2x3x4xf32>) {
  %h = nn.cast %q : tensor<2x3x4x8xf32> -> tensor<2x3x4x8xbf16>
  %o, %lse = nn.attention %h, %h, %h : (tensor<2x3x4x8xbf16>, tensor<2x3x4x8xbf16>, tensor<2x3x4x8xbf16>) -> (tensor<2x3x4x8xbf16>, tensor<2x3x4xf32>)
  %y = nn.cast %o : tensor<2x3x4x8xbf16> -> tensor<2x3x4x8xf16>
  return %y, %lse : tensor<2x3x4x8xf16>, tensor<2x3x4xf32>
}

// Random bits round f32: what is cast to an 8-bit float is that first; a cast to what is f64 now goes away.
// CHECK-LABEL: func.func @stochastic(
// CHECK-SAME: %[[X:.*]]: tensor<4xf64>, %[[B:.*]]: tensor<4xi32>)
// CHECK: %[[N:.*]] = nn.cast %[[X]] : tensor<4xf64> -> tensor<4xf32>
// CHECK: %[[Q:.*]] = nn.cast %[[N]] stochastic %[[B]] : tensor<4xf32>, tensor<4xi32> -> tensor<4xf8E5M2>
// CHECK: return %[[Q]], %[[X]] : tensor<4xf8E5M2>, tensor<4xf64>
func.func @stochastic(%x: tensor<4xf32>, %b: tensor<4xi32>) -> (tensor<4xf8E5M2>, tensor<4xbf16>) {
  %q = nn.cast %x stochastic %b : tensor<4xf32>, tensor<4xi32> -> tensor<4xf8E5M2>
  %h = nn.cast %x stochastic %b saturate : tensor<4xf32>, tensor<4xi32> -> tensor<4xbf16>
  return %q, %h : tensor<4xf8E5M2>, tensor<4xbf16>
}

// What a cast to a wider type said of too large numbers goes.
// CHECK-LABEL: func.func @saturated
// CHECK: nn.cast %arg0 : tensor<4xf8E5M2> -> tensor<4xf64>
func.func @saturated(%x: tensor<4xf8E5M2>) -> tensor<4xf16> {
  %y = nn.cast %x saturate : tensor<4xf8E5M2> -> tensor<4xf16>
  return %y : tensor<4xf16>
}
