// RUN: sheaf-opt %s --exec-to-llvm | FileCheck %s

// The two kinds, 6 and 7, the axis, the elements and the other end.
// CHECK: module attributes {exec.collectives = [{loc = "{{.*}}", name = "edge"}, {loc = "{{.*}}"}]
// Instruction 6 starts a transfer, of a buffer, twice, and a handle in scratch memory, 7 waits for it.
// CHECK-DAG: @program_move(dense<[774, 0, 1099511627776, 1099511627776, 0, 774, 1, 2199023255552, 2199023255552, 64, 519, 0, 0, 1099511627776, 519, 0, 64, 2199023255552]>
func.func @move(%a: memref<8xf32>, %b: memref<4xf32>) attributes {exec.scratch_bytes = 128 : i64} {
  %h = exec.buffer at 0 : memref<i64>
  %g = exec.buffer at 64 : memref<i64>
  exec.start send reads(%a : memref<8xf32>) writes(%h : memref<i64>) peer 1 size 4 stride 2 about {name = "edge"}
  exec.start receive writes(%b, %g : memref<4xf32>, memref<i64>) peer 3 size 4 stride 2
  exec.wait reads(%h, %a : memref<i64>, memref<8xf32>)
  exec.wait reads(%g : memref<i64>) writes(%b : memref<4xf32>)
  return
}
