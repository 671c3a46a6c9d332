// RUN: sheaf-opt %s --dist-compress="gradients=bf16 error" --dist-verify | FileCheck %s

// The error of what a layer sends in a loop over microbatches reaches the end of the step; other
// entries call the layer, too.
// CHECK-LABEL: func.func private @layer
// CHECK: %[[ES:.*]] = nn.reduce sum_of_squares
// CHECK: %[[SS:.*]] = nn.reduce sum_of_squares
// CHECK: %[[E:.*]] = nn.reduce sum %[[ES]]
// CHECK: %[[S:.*]] = nn.reduce sum %[[SS]]
// CHECK: return %{{.*}}, %[[E]], %[[S]] : tensor<2xf32>, tensor<f32>, tensor<f32>
// CHECK-LABEL: func.func @gradients
// CHECK: %[[C:.*]]:3 = call @layer
// CHECK: return %[[C]]#0
// CHECK-LABEL: func.func @step
// CHECK-SAME: -> (tensor<2xf32>, tensor<f32> {nn.result = ["result", "wire_error"]})
// CHECK: %[[L:.*]]:3 = nn.microbatches 2
// CHECK: %[[ONE:.*]]:3 = func.call @layer
// CHECK: nn.yield
// CHECK: %[[PE:.*]] = dist.local %[[L]]#1
// CHECK: dist.all_reduce sum %[[PE]] axes ["dp", "tp"]
// CHECK: %[[PS:.*]] = dist.local %[[L]]#2
// CHECK: dist.all_reduce sum %[[PS]] axes ["dp", "tp"]
// CHECK: %[[R:.*]] = nn.sqrt
// CHECK: return %[[L]]#0, %[[R]]
dist.mesh @mesh ["dp" = 2, "tp" = 2]
func.func private @layer(%g: tensor<4xf32, #dist.partial<["dp"], sum>>) -> tensor<2xf32> {
  %y = dist.reduce_scatter sum %g dim 0 axes ["dp"] {nn.role = "weight_gradient"} : (tensor<4xf32, #dist.partial<["dp"], sum>>) -> tensor<2xf32>
  return %y : tensor<2xf32>
}
func.func private @gradient(%x: tensor<2xi32>) -> tensor<4xf32, #dist.partial<["dp"], sum>>
func.func @gradients(%x: tensor<2xi32>) -> tensor<2xf32> {
  %g = func.call @gradient(%x) : (tensor<2xi32>) -> tensor<4xf32, #dist.partial<["dp"], sum>>
  %y = func.call @layer(%g) : (tensor<4xf32, #dist.partial<["dp"], sum>>) -> tensor<2xf32>
  return %y : tensor<2xf32>
}
func.func @step(%x: tensor<4xi32>, %zero: tensor<2xf32>) -> tensor<2xf32> {
  %sum = nn.microbatches 2 slices(%x : tensor<4xi32>) inits(%zero : tensor<2xf32>) -> tensor<2xf32> {
  ^bb0(%k: tensor<i32>, %part: tensor<2xi32>, %acc: tensor<2xf32>):
    %g = func.call @gradient(%part) : (tensor<2xi32>) -> tensor<4xf32, #dist.partial<["dp"], sum>>
    %y = func.call @layer(%g) : (tensor<4xf32, #dist.partial<["dp"], sum>>) -> tensor<2xf32>
    %next = nn.add %acc, %y : tensor<2xf32>
    nn.yield %next : tensor<2xf32>
  }
  return %sum : tensor<2xf32>
}
