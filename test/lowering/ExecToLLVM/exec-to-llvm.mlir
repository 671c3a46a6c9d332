// RUN: sheaf-opt %s --split-input-file --exec-to-llvm | FileCheck %s

// An entry hands its buffers on; what it does is a program: a launch of description
// 0 with buffer 0 (base 1) and scratch memory (base 0), then a copy of 256 bytes from
// there to buffer 1 (base 2). What a launch is stands in a constant.
// CHECK-DAG: exec.table = [{bytes = 5.120000e+02 : f64, flops = 6.400000e+01 : f64, kind = "kernel", loc = {{.*}}, name = "exp_0"}]
// CHECK-DAG: llvm.mlir.global internal constant @launch_exp_0()
// CHECK-DAG: llvm.func hidden @exp_0(!llvm.ptr, i64, i64)
// CHECK: llvm.mlir.global internal constant @program_f(dense<[512, 0, 1099511627776, 0, 514, 256, 0, 2199023255552]> : tensor<8xi64>)
// CHECK: llvm.func internal @body_f(%[[C:.*]]: !llvm.ptr, %[[BUFFERS:.*]]: !llvm.ptr, %[[SCRATCH:.*]]: !llvm.ptr)
// CHECK: %[[START:.*]] = llvm.mlir.addressof @program_f
// CHECK: %[[BEGIN:.*]] = llvm.getelementptr %[[START]]
// CHECK: %[[END:.*]] = llvm.getelementptr %[[START]]
// CHECK: llvm.call @run_program(%[[C]], %[[BUFFERS]], %[[SCRATCH]], %[[BEGIN]], %[[END]])
// CHECK: llvm.func @sheaf_f(%[[CONTEXT:.*]]: !llvm.ptr) -> i32
// CHECK: llvm.call @body_f(%[[CONTEXT]],
// CHECK-NOT: exec.launch
// CHECK: llvm.mlir.global internal constant @descriptions()
// CHECK: llvm.mlir.addressof @launch_exp_0
// CHECK: llvm.mlir.global internal constant @functions()
// CHECK: llvm.mlir.addressof @body_f
// CHECK: llvm.func internal @run_program(
// CHECK: llvm.switch
func.func @f(%x: memref<64xf32>, %y: memref<64xf32>)
    attributes {exec.entry = [["input", "f.arg0"], ["output", "f.out0"]], exec.scratch_bytes = 256 : i64} {
  %a = exec.buffer at 0 : memref<64xf32>
  exec.launch @kernels::@exp_0 reads(%x : memref<64xf32>) writes(%a : memref<64xf32>)
  exec.copy reads(%a : memref<64xf32>) writes(%y : memref<64xf32>)
  return
}
module @kernels {
  func.func @exp_0(%x: memref<64xf32>, %y: memref<64xf32>, %begin: index, %end: index)
      attributes {exec.kernel, exec.extent = 4 : i64, exec.grain = 1 : i64, exec.flops = 64 : i64,
                  exec.bytes = 512 : i64} {
    return
  }
}

// -----

// A buffer that is updated in place is one argument of the entry: both pointers are
// the context's first.
// CHECK: @program_g(dense<[512, 0, 1099511627776, 1099511627776]> : tensor<4xi64>)
// CHECK: llvm.call @run_program(
// CHECK: llvm.func @sheaf_g(%{{.*}}: !llvm.ptr) -> i32
func.func @g(%x: memref<64xf32>, %y: memref<64xf32>)
    attributes {exec.entry = [["parameter", "p"], ["parameter", "p"]], exec.scratch_bytes = 0 : i64} {
  exec.launch @kernels::@exp_0 reads(%x : memref<64xf32>) writes(%x : memref<64xf32>)
  return
}
module @kernels {
  func.func @exp_0(%x: memref<64xf32>, %y: memref<64xf32>, %begin: index, %end: index)
      attributes {exec.kernel, exec.extent = 4 : i64, exec.grain = 1 : i64,
                  exec.in_place = array<i64: 0, 0>} {
    return
  }
}

// -----

// A product is a constant, too, one for each shape. A loop is a loop, and what moves
// with it is code; what does not is a program, in the loop and behind it: a layer is
// called with its scratch memory behind its buffers.
// CHECK-COUNT-1: llvm.mlir.global internal constant @matmul_0()
// CHECK-NOT: @matmul_1
// CHECK: @program_h(dense<[514, 64, 2199023255552, 3298534883328, 515, {{[01]}}, 2199023255552, 128]> : tensor<8xi64>)
// CHECK: llvm.func internal @body_h(%[[C:[^:]*]]: !llvm.ptr, %[[BUFFERS:[^:]*]]: !llvm.ptr, %[[SCRATCH:[^:]*]]: !llvm.ptr)
// CHECK: llvm.icmp "slt"
// CHECK: llvm.cond_br
// CHECK: llvm.mul
// CHECK-COUNT-2: llvm.mlir.addressof @matmul_0
// CHECK: llvm.call @run_program(%[[C]], %[[BUFFERS]], %[[SCRATCH]],
// CHECK: llvm.br
// CHECK: llvm.call @run_program(%[[C]], %[[BUFFERS]], %[[SCRATCH]],
// CHECK: llvm.return
func.func @h(%x: memref<8x4x4xf32>, %y: memref<4x4xf32>, %z: memref<4x4xf32>) attributes {exec.scratch_bytes = 192 : i64} {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %eight = arith.constant 8 : index
  scf.for %i = %zero to %eight step %one {
    %part = exec.part %x[%i] : memref<8x4x4xf32> to memref<4x4xf32>
    exec.matmul reads(%part, %part : memref<4x4xf32>, memref<4x4xf32>) writes(%y : memref<4x4xf32>)
      dims [4, 4, 4] leading [4, 4, 4] accumulate
    exec.matmul reads(%part, %part : memref<4x4xf32>, memref<4x4xf32>) writes(%y : memref<4x4xf32>)
      dims [4, 4, 4] leading [4, 4, 4] accumulate
    exec.copy reads(%y : memref<4x4xf32>) writes(%z : memref<4x4xf32>)
  }
  exec.call @layer writes(%y : memref<4x4xf32>) scratch 128
  return
}
func.func private @layer(%y: memref<4x4xf32>) attributes {exec.scratch_bytes = 64 : i64} {
  return
}
