// RUN: sheaf-opt %s --nn-pool-streams --nn-to-exec | FileCheck %s

// Two random tensors that differ in the stream alone have one kernel.
// CHECK-LABEL: func.func @two
// CHECK: exec.launch @kernels::@[[K:random_0]] {{.*}}writes(%arg1
// CHECK: exec.launch @kernels::@[[K]] {{.*}}writes(%arg2
// CHECK-LABEL: func.func @one
// CHECK: exec.launch @kernels::@random_1 reads(%arg0 : memref<4xi32>)
func.func @two(%key: tensor<4xi32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %s = nn.constant dense<7> : tensor<i32>
  %t = nn.constant dense<9> : tensor<i32>
  %u = nn.random uniform %key, %s : (tensor<4xi32>, tensor<i32>) -> tensor<8xf32>
  %v = nn.random uniform %key, %t : (tensor<4xi32>, tensor<i32>) -> tensor<8xf32>
  return %u, %v : tensor<8xf32>, tensor<8xf32>
}

func.func @one(%key: tensor<4xi32>) -> tensor<8xf32> {
  %s = nn.constant dense<7> : tensor<i32>
  %u = nn.random uniform %key, %s : (tensor<4xi32>, tensor<i32>) -> tensor<8xf32>
  return %u : tensor<8xf32>
}
