// RUN: sheaf-opt %s --exec-to-llvm | FileCheck %s

// A product of uneven sizes is an instruction with four pointers, and a description: groups, rows,
// experts, k, n, parts; transposed, outer, accumulate, type, id. Two of one shape share it.
// CHECK-DAG: exec.table = [{bytes = {{.*}}, flops = 9.830400e+04 : f64, kind = "matmul", loc = {{.*}}, name = "grouped matmul 8 of 128x24x16"}]
// CHECK: llvm.mlir.global internal constant @grouped_0() {{.*}} : !llvm.struct<(i64, i64, i64, i64, i64, i64, i32, i32, i32, i32, i32, i32)>
// CHECK: llvm.mlir.global internal constant @program_f(dense<[1029, 0, 1099511627776, 2199023255552, 3298534883328, 4398046511104, 1029, 0, {{.*}}]> : tensor<12xi64>)
// CHECK: llvm.func internal @run_program(
func.func @f(%x: memref<4x32x16xf32>, %w: memref<8x16x24xf32>, %o: memref<4x9xi32>, %y: memref<4x32x24xf32>)
    attributes {exec.entry = [["input", "f.arg0"], ["input", "f.arg1"], ["input", "f.arg2"], ["output", "f.out0"]], exec.scratch_bytes = 0 : i64} {
  exec.grouped_matmul reads(%x, %w, %o : memref<4x32x16xf32>, memref<8x16x24xf32>, memref<4x9xi32>) writes(%y : memref<4x32x24xf32>) dims [4, 32, 8, 16, 24]
  exec.grouped_matmul reads(%x, %w, %o : memref<4x32x16xf32>, memref<8x16x24xf32>, memref<4x9xi32>) writes(%y : memref<4x32x24xf32>) dims [4, 32, 8, 16, 24]
  return
}
