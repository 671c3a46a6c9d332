// RUN: sheaf-opt %s --verify-diagnostics --dist-partition

// What was partitioned once is of one device.
dist.mesh @mesh ["dp" = 2]
// expected-error @below {{is of the program of one device already; dist-partition expects a program on whole tensors}}
func.func @f(%x: tensor<8xf32, #dist.partial<["dp"], sum>>) -> tensor<8xf32> {
  %y = dist.all_reduce sum %x axes ["dp"] : (tensor<8xf32, #dist.partial<["dp"], sum>>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}
