// RUN: sheaf-opt %s --cpu-lower-kernels --cpu-kernels-to-llvm | FileCheck %s

// The entry takes the table of buffers; the body's pointers do not overlap but where
// the kernel may work in place; no function of the C library is called for f32.
// CHECK: llvm.func internal @gate.body(%{{[^:]*}}: !llvm.ptr, %{{[^:]*}}: !llvm.ptr {llvm.noalias}, %{{[^:]*}}: !llvm.ptr, %{{.*}}: i64, %{{.*}}: i64)
// CHECK-NOT: llvm.call
// CHECK-NOT: llvm.intr.exp
// CHECK: llvm.func @gate(%[[TABLE:.*]]: !llvm.ptr, %[[BEGIN:.*]]: i64, %[[END:.*]]: i64)
// CHECK-SAME: exec.extent
// CHECK: llvm.getelementptr %[[TABLE]][2]
// CHECK: llvm.call @gate.body(%{{.*}}, %{{.*}}, %{{.*}}, %[[BEGIN]], %[[END]])
func.func @gate(%x: tensor<4x64xf32>, %s: tensor<64xf32>) -> tensor<4x64xf32> attributes {exec.kernel} {
  %t = nn.tanh %x : tensor<4x64xf32>
  %y = nn.mul %t, %s : (tensor<4x64xf32>, tensor<64xf32>) -> tensor<4x64xf32>
  return %y : tensor<4x64xf32>
}
