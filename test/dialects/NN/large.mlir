// RUN: sheaf-opt %s --nn-print-rules --nn-decompose --canonicalize --cse --nn-print-rules 2>/dev/null | FileCheck %s

// Tensors of 10^10 elements have rules, decompositions and folds like any other.
// CHECK-LABEL: @f
// CHECK: nn.constant dense<6.000000e+00> : tensor<100000x100000xf32>
// CHECK: nn.einsum {{.*}} -> tensor<1000x100x1x1000x1000xf32>
// CHECK: return
func.func @f(%x: tensor<100000x100000xf32>, %s: tensor<100000xf32>, %t: tensor<100000xi32>, %r: tensor<1000x1000x100x100xf32>, %p: tensor<1000xi32>, %m: tensor<100000x100000xi1>, %a: tensor<f32>) -> (tensor<f32>) {
  %0 = nn.softmax %x dim 1 : tensor<100000x100000xf32>
  %1 = nn.rms_norm %0, %s eps 1.0e-5 : (tensor<100000x100000xf32>, tensor<100000xf32>) -> tensor<100000x100000xf32>
  %2, %3 = nn.cross_entropy %1, %t : (tensor<100000x100000xf32>, tensor<100000xi32>) -> (tensor<100000xf32>, tensor<100000xf32>)
  %4 = nn.rotary %r, %p theta 10000.0 : (tensor<1000x1000x100x100xf32>, tensor<1000xi32>) -> tensor<1000x1000x100x100xf32>
  %5 = nn.attention %4, %r, %r causal : (tensor<1000x1000x100x100xf32>, tensor<1000x1000x100x100xf32>, tensor<1000x1000x100x100xf32>) -> tensor<1000x1000x100x100xf32>
  %6 = nn.reshape %5 : tensor<1000x1000x100x100xf32> -> tensor<7812500x1280xf32>
  %7 = nn.reduce sum %6 dims [0, 1] : (tensor<7812500x1280xf32>) -> tensor<f32>
  %8 = nn.step_mean %x weights %m : (tensor<100000x100000xf32>, tensor<100000x100000xi1>) -> tensor<f32>
  %9 = nn.constant dense<2.0> : tensor<100000x100000xf32>
  %10 = nn.constant dense<3> : tensor<100000x100000xi32>
  %11 = nn.cast %10 : tensor<100000x100000xi32> -> tensor<100000x100000xf32>
  %12 = nn.mul %9, %11 : tensor<100000x100000xf32>
  %13 = nn.step_mean %12 weights %m : (tensor<100000x100000xf32>, tensor<100000x100000xi1>) -> tensor<f32>
  %14 = nn.add %13, %8 : tensor<f32>
  %15 = nn.add %14, %7 : tensor<f32>
  return %15 : tensor<f32>
}
