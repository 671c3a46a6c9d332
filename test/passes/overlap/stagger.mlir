// RUN: sheaf-opt %s --exec-stagger | FileCheck %s
// RUN: sheaf-opt %s --exec-stagger=ahead=2 | FileCheck %s --check-prefix=TWO
// RUN: sheaf-opt %s --exec-stagger=ahead=0 | FileCheck %s --check-prefix=NONE
// RUN: not sheaf-opt %s --exec-stagger=ahead=-1 2>&1 | FileCheck %s --check-prefix=ERROR

// ERROR: exec-stagger: option 'ahead' is -1, expected at least 0

func.func private @layer(tensor<8xf32>) -> (tensor<8xf32>, tensor<4xf32>)

// Each gradient is rounded behind its layer, added behind the next, and used behind the one after that. The last ones, of which
// there are two in one place, are both under way before the first is added.
// CHECK-LABEL: func.func @step
// CHECK: %[[A:.*]]:2 = call @layer
// CHECK-NEXT: %[[P0:.*]] = nn.cast %[[A]]#1
// CHECK-NEXT: %[[Q0:.*]] = exec.transfer all_to_all %[[P0]]
// CHECK-NEXT: %[[B:.*]]:2 = call @layer
// CHECK-NEXT: %[[P1:.*]] = nn.cast %[[B]]#1
// CHECK-NEXT: %[[Q1:.*]] = exec.transfer all_to_all %[[P1]]
// CHECK-NEXT: %[[R0:.*]] = nn.cast %[[Q0]]
// CHECK-NEXT: %[[S0:.*]] = nn.add %[[R0]], %[[R0]]
// CHECK-NEXT: %[[T0:.*]] = exec.transfer all_gather %[[S0]]
// CHECK-NEXT: %[[C:.*]]:2 = call @layer
// CHECK-NEXT: %[[P2:.*]] = nn.cast %[[C]]#1
// CHECK-NEXT: %[[Q2:.*]] = exec.transfer all_to_all %[[P2]]
// CHECK-NEXT: %[[R1:.*]] = nn.cast %[[Q1]]
// CHECK-NEXT: %[[S1:.*]] = nn.add %[[R1]], %[[R1]]
// CHECK-NEXT: %[[T1:.*]] = exec.transfer all_gather %[[S1]]
// CHECK-NEXT: %[[R2:.*]] = nn.cast %[[Q2]]
// CHECK-NEXT: %[[S2:.*]] = nn.add %[[R2]], %[[R2]]
// CHECK-NEXT: %[[T2:.*]] = exec.transfer all_gather %[[S2]]
// CHECK: nn.sqrt %[[T0]]

// TWO-LABEL: func.func @step
// TWO: call @layer
// TWO: call @layer
// TWO-NOT: nn.add
// TWO: call @layer
// TWO: exec.transfer all_to_all
// TWO: nn.add

// NONE-LABEL: func.func @step
// NONE: call @layer
// NONE: exec.transfer all_to_all
// NONE-NEXT: nn.cast
// NONE-NEXT: nn.add
// NONE-NEXT: exec.transfer all_gather
// NONE-NEXT: call @layer
func.func @step(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
  %a, %g = call @layer(%x) : (tensor<8xf32>) -> (tensor<8xf32>, tensor<4xf32>)
  %b, %h = call @layer(%a) : (tensor<8xf32>) -> (tensor<8xf32>, tensor<4xf32>)
  %c, %i = call @layer(%b) : (tensor<8xf32>) -> (tensor<8xf32>, tensor<4xf32>)
  %p0 = nn.cast %g {nn.role = "weight_gradient"} : tensor<4xf32> -> tensor<4xbf16>
  %q0 = exec.transfer all_to_all %p0 sizes [2] strides [1] {nn.role = "weight_gradient"} : (tensor<4xbf16>) -> tensor<4xbf16>
  %r0 = nn.cast %q0 {nn.role = "weight_gradient"} : tensor<4xbf16> -> tensor<4xf32>
  %s0 = nn.add %r0, %r0 {nn.role = "weight_gradient"} : tensor<4xf32>
  %t0 = exec.transfer all_gather %s0 sizes [2] strides [1] {nn.role = "weight_gradient"} : (tensor<4xf32>) -> tensor<8xf32>
  %p1 = nn.cast %h {nn.role = "weight_gradient"} : tensor<4xf32> -> tensor<4xbf16>
  %q1 = exec.transfer all_to_all %p1 sizes [2] strides [1] {nn.role = "weight_gradient"} : (tensor<4xbf16>) -> tensor<4xbf16>
  %r1 = nn.cast %q1 {nn.role = "weight_gradient"} : tensor<4xbf16> -> tensor<4xf32>
  %s1 = nn.add %r1, %r1 {nn.role = "weight_gradient"} : tensor<4xf32>
  %t1 = exec.transfer all_gather %s1 sizes [2] strides [1] {nn.role = "weight_gradient"} : (tensor<4xf32>) -> tensor<8xf32>
  %p2 = nn.cast %i {nn.role = "weight_gradient"} : tensor<4xf32> -> tensor<4xbf16>
  %q2 = exec.transfer all_to_all %p2 sizes [2] strides [1] {nn.role = "weight_gradient"} : (tensor<4xbf16>) -> tensor<4xbf16>
  %r2 = nn.cast %q2 {nn.role = "weight_gradient"} : tensor<4xbf16> -> tensor<4xf32>
  %s2 = nn.add %r2, %r2 {nn.role = "weight_gradient"} : tensor<4xf32>
  %t2 = exec.transfer all_gather %s2 sizes [2] strides [1] {nn.role = "weight_gradient"} : (tensor<4xf32>) -> tensor<8xf32>
  %u0 = nn.sqrt %t0 : tensor<8xf32>
  %u1 = nn.sqrt %t1 : tensor<8xf32>
  %u2 = nn.sqrt %t2 : tensor<8xf32>
  return %u0, %u1, %u2 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}

// What is read at once stays in front of that, and a block without calls stays as it is.
// CHECK-LABEL: func.func @clip
// CHECK: call @layer
// CHECK-NEXT: exec.transfer all_reduce
// CHECK-NEXT: nn.neg
// CHECK-NEXT: nn.sqrt
// CHECK-NEXT: call @layer
func.func @clip(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<4xf32>) {
  %a, %g = call @layer(%x) : (tensor<8xf32>) -> (tensor<8xf32>, tensor<4xf32>)
  %t = exec.transfer all_reduce by sum %g sizes [2] strides [1] {nn.role = "weight_gradient"} : (tensor<4xf32>) -> tensor<4xf32>
  %n = nn.neg %t {nn.role = "weight_gradient"} : tensor<4xf32>
  %s = nn.sqrt %n : tensor<4xf32>
  %b, %h = call @layer(%a) : (tensor<8xf32>) -> (tensor<8xf32>, tensor<4xf32>)
  return %b, %s : tensor<8xf32>, tensor<4xf32>
}

// The norm of what arrives early stands in front of what waits for the last gradient, though it was asked for later.
// CHECK-LABEL: func.func @norm
// CHECK: %[[T0:.*]] = exec.transfer all_reduce
// CHECK: call @layer
// CHECK: %[[T1:.*]] = exec.transfer all_reduce
// CHECK-NEXT: nn.reduce sum_of_squares %[[T0]]
// CHECK-NEXT: nn.reduce sum_of_squares %[[T1]]
func.func @norm(%x: tensor<8xf32>) -> (tensor<f32>, tensor<f32>) {
  %a, %g = call @layer(%x) : (tensor<8xf32>) -> (tensor<8xf32>, tensor<4xf32>)
  %t = exec.transfer all_reduce by sum %g sizes [2] strides [1] {nn.role = "weight_gradient"} : (tensor<4xf32>) -> tensor<4xf32>
  %b, %h = call @layer(%a) : (tensor<8xf32>) -> (tensor<8xf32>, tensor<4xf32>)
  %u = exec.transfer all_reduce by sum %h sizes [2] strides [1] {nn.role = "weight_gradient"} : (tensor<4xf32>) -> tensor<4xf32>
  %n = nn.reduce sum_of_squares %u dims [0] {nn.role = "optimizer"} : (tensor<4xf32>) -> tensor<f32>
  %m = nn.reduce sum_of_squares %t dims [0] {nn.role = "optimizer"} : (tensor<4xf32>) -> tensor<f32>
  return %m, %n : tensor<f32>, tensor<f32>
}

// Another block reads what arrives.
// CHECK-LABEL: func.func @blocks
// CHECK: call @layer
// CHECK-NEXT: exec.transfer
// CHECK-NEXT: cf.br
func.func @blocks(%x: tensor<8xf32>) -> tensor<4xf32> {
  %a, %g = call @layer(%x) : (tensor<8xf32>) -> (tensor<8xf32>, tensor<4xf32>)
  %t = exec.transfer all_reduce by sum %g sizes [2] strides [1] {nn.role = "weight_gradient"} : (tensor<4xf32>) -> tensor<4xf32>
  cf.br ^bb1
^bb1:
  %n = nn.neg %t {nn.role = "weight_gradient"} : tensor<4xf32>
  return %n : tensor<4xf32>
}
