// RUN: sheaf-opt %s --cpu-lower-kernels | FileCheck %s
// RUN: sheaf-opt %s --cpu-lower-kernels --cpu-kernels-to-llvm | FileCheck %s --check-prefix=LLVM

// Rows and columns of one tensor have no loops in common: 64 bands, of each of which rows have 64 items and columns
// one, behind each other.
// CHECK-LABEL: func.func @copies(
// CHECK-SAME: %[[X:.*]]: memref<256x512xf32>, %[[P:.*]]: memref<256x16x32xf8E4M3FN>, %[[Q:.*]]: memref<8x32x512xf8E4M3FN>, %[[BEGIN:.*]]: index, %[[END:.*]]: index)
// CHECK-SAME: exec.extent = 64 : i64
// CHECK-NOT: exec.in_place
// CHECK: scf.for %[[BAND:.*]] = %[[BEGIN]] to %[[END]] step
// CHECK: %[[FROM:.*]] = arith.muli %[[BAND]], %c64
// CHECK: %[[TO:.*]] = arith.addi %[[FROM]], %c64
// CHECK: scf.for %{{.*}} = %[[FROM]] to %[[TO]]
// CHECK: arith.truncf
// CHECK: %[[FROM1:.*]] = arith.muli %[[BAND]], %c1
// CHECK: %[[TO1:.*]] = arith.addi %[[FROM1]], %c1
// CHECK: scf.for %{{.*}} = %[[FROM1]] to %[[TO1]]
// A vector of few enough lanes to round, though it goes down columns.
// CHECK: arith.truncf {{.*}} : vector<16xf32> to vector<16xf8E4M3FN>
// CHECK-NOT: func.func @copies_band
// LLVM: llvm.func @copies(
module {
  func.func @copies(%x: tensor<256x512xf32>) -> (tensor<256x16x32xf8E4M3FN>, tensor<8x32x512xf8E4M3FN>) attributes {exec.kernel} {
    %rows = nn.reshape %x : tensor<256x512xf32> -> tensor<256x16x32xf32>
    %ra = nn.abs %rows : tensor<256x16x32xf32>
    %rm = nn.reduce max %ra dims [2] keep : (tensor<256x16x32xf32>) -> tensor<256x16x1xf32>
    %rs = nn.div %rows, %rm : (tensor<256x16x32xf32>, tensor<256x16x1xf32>) -> tensor<256x16x32xf32>
    %p = nn.cast %rs : tensor<256x16x32xf32> -> tensor<256x16x32xf8E4M3FN>
    %columns = nn.reshape %x : tensor<256x512xf32> -> tensor<8x32x512xf32>
    %ca = nn.abs %columns : tensor<8x32x512xf32>
    %cm = nn.reduce max %ca dims [1] keep : (tensor<8x32x512xf32>) -> tensor<8x1x512xf32>
    %cs = nn.div %columns, %cm : (tensor<8x32x512xf32>, tensor<8x1x512xf32>) -> tensor<8x32x512xf32>
    %q = nn.cast %cs : tensor<8x32x512xf32> -> tensor<8x32x512xf8E4M3FN>
    return %p, %q : tensor<256x16x32xf8E4M3FN>, tensor<8x32x512xf8E4M3FN>
  }
}
