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

// What is only moved is an integer, and casts are steps on integers: a machine without
// bf16 needs no function of a library.
// CHECK-LABEL: llvm.func internal @chosen.body
// CHECK-NOT: bf16
// CHECK: llvm.select %{{.*}} : {{.*}}i16
// CHECK-NOT: bf16
// CHECK: llvm.func @chosen(
func.func @chosen(%c: tensor<35xi1>, %a: tensor<35xbf16>, %n: tensor<35xi32>) -> (tensor<35xbf16>, tensor<35xbf16>) attributes {exec.kernel} {
  %table = nn.constant dense<[1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]> : tensor<7xbf16>
  %0 = nn.broadcast %table dims [1] : tensor<7xbf16> -> tensor<5x7xbf16>
  %1 = nn.reshape %0 : tensor<5x7xbf16> -> tensor<35xbf16>
  %2 = nn.select %c, %a, %1 : (tensor<35xi1>, tensor<35xbf16>, tensor<35xbf16>) -> tensor<35xbf16>
  %3 = nn.cast %n : tensor<35xi32> -> tensor<35xbf16>
  return %2, %3 : tensor<35xbf16>, tensor<35xbf16>
}

// The exponential of a sigmoid, which is only added to 1, takes one factor for its power
// of two; others two, or a machine's instruction.
// CHECK-LABEL: llvm.func internal @logistic.body
// CHECK-COUNT-1: llvm.shl
// CHECK-NOT: llvm.ashr
// CHECK: llvm.func @logistic(
func.func @logistic(%x: tensor<64xf32>) -> tensor<64xf32> attributes {exec.kernel} {
  %y = nn.sigmoid %x : tensor<64xf32>
  return %y : tensor<64xf32>
}

// So does one of x - max(x) that is only summed.
// CHECK-LABEL: llvm.func internal @sums.body
// CHECK-NOT: llvm.ashr
// CHECK: llvm.func @sums(
func.func @sums(%x: tensor<4x64xf32>) -> tensor<4x1xf32> attributes {exec.kernel} {
  %m = nn.reduce max %x dims [1] keep : (tensor<4x64xf32>) -> tensor<4x1xf32>
  %d = nn.sub %x, %m : (tensor<4x64xf32>, tensor<4x1xf32>) -> tensor<4x64xf32>
  %e = nn.exp %d : tensor<4x64xf32>
  %s = nn.reduce sum %e dims [1] keep : (tensor<4x64xf32>) -> tensor<4x1xf32>
  return %s : tensor<4x1xf32>
}

// Not where it is used for more.
// CHECK-LABEL: llvm.func internal @parts.body
// CHECK: llvm.ashr
// CHECK: llvm.func @parts(
func.func @parts(%x: tensor<4x64xf32>) -> tensor<4x64xf32> attributes {exec.kernel} {
  %y = nn.softmax %x dim 1 : tensor<4x64xf32>
  return %y : tensor<4x64xf32>
}
