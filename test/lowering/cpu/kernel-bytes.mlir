// RUN: sheaf-opt %s --cpu-lower-kernels | FileCheck %s

// Of a table only the rows count that are looked up: 2 of 64 floats, the result, and
// two numbers.
// CHECK: func.func @lookup({{.*}}exec.bytes = 1032 : i64
func.func @lookup(%t: tensor<1000x64xf32>, %i: tensor<2xi32>) -> tensor<2x64xf32> attributes {exec.kernel} {
  %y = nn.embedding %t[%i] : (tensor<1000x64xf32>, tensor<2xi32>) -> tensor<2x64xf32>
  return %y : tensor<2x64xf32>
}

// Where gradients are added to rows in place, those rows count, read and written.
// CHECK: func.func @scatter({{.*}}exec.bytes = 1544 : i64
func.func @scatter(%g: tensor<2x64xf32>, %i: tensor<2xi32>, %base: tensor<1000x64xf32>) -> tensor<1000x64xf32> attributes {exec.kernel} {
  %d = nn.gather_grad %g[%i] axis 0 : (tensor<2x64xf32>, tensor<2xi32>) -> tensor<1000x64xf32>
  %y = nn.add %base, %d : tensor<1000x64xf32>
  return %y : tensor<1000x64xf32>
}

// Everything else is read and written once.
// CHECK: func.func @twice({{.*}}exec.bytes = 512 : i64
func.func @twice(%x: tensor<64xf32>) -> tensor<64xf32> attributes {exec.kernel} {
  %y = nn.add %x, %x : tensor<64xf32>
  return %y : tensor<64xf32>
}
