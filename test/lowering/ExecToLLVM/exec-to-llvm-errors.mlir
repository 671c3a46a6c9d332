// RUN: sheaf-opt %s --split-input-file --verify-diagnostics --exec-to-llvm

// expected-error @below {{is not placed; run exec-place first}}
func.func @function() {
  return
}

// -----

func.func @buffer() attributes {exec.scratch_bytes = 64 : i64} {
  // expected-error @below {{is not placed; run exec-place first}}
  %a = exec.buffer : memref<4xf32>
  return
}

// -----

func.func @call() attributes {exec.scratch_bytes = 64 : i64} {
  // expected-error @below {{is not placed; run exec-place first}}
  exec.call @callee
  return
}
func.func private @callee() attributes {exec.scratch_bytes = 64 : i64} {
  return
}

// -----

func.func @tensors(%x: memref<4xf32>, %y: memref<4xf32>) attributes {exec.scratch_bytes = 0 : i64} {
  exec.launch @kernels::@k reads(%x : memref<4xf32>) writes(%y : memref<4xf32>)
  return
}
module @kernels {
  // expected-error @below {{is not lowered: expected exec.extent and exec.grain}}
  func.func @k(%x: tensor<4xf32>) -> tensor<4xf32> attributes {exec.kernel} {
    return %x : tensor<4xf32>
  }
}

// -----

func.func @foreign(%x: memref<4xf32>) attributes {exec.scratch_bytes = 0 : i64} {
  %c = arith.constant 0 : index
  // expected-error @below {{has no host code; expected ops of exec, scf.for or index constants}}
  %y = memref.load %x[%c] : memref<4xf32>
  return
}

// -----

func.func @carries() attributes {exec.scratch_bytes = 0 : i64} {
  %c = arith.constant 0 : index
  // expected-error @below {{carries values; loops of this floor carry buffers only}}
  %y = scf.for %i = %c to %c step %c iter_args(%a = %c) -> index {
    scf.yield %a : index
  }
  return
}

// -----

func.func @integers(%x: memref<4x4xi32>) attributes {exec.scratch_bytes = 64 : i64} {
  %a = exec.buffer at 0 : memref<4x4xi32>
  // expected-error @below {{a matrix product of 'i32' is not supported}}
  exec.matmul reads(%x, %x : memref<4x4xi32>, memref<4x4xi32>) writes(%a : memref<4x4xi32>)
    dims [4, 4, 4] leading [4, 4, 4]
  return
}

// -----

// The kernel takes for granted that what it reads and writes does not overlap.
func.func @overlap(%x: memref<8xf32>) attributes {exec.scratch_bytes = 0 : i64} {
  %a = exec.view %x : memref<8xf32> to memref<4xf32>
  %b = exec.view %x offset 16 : memref<8xf32> to memref<4xf32>
  exec.launch @kernels::@k reads(%a : memref<4xf32>) writes(%b : memref<4xf32>)
  // expected-error @below {{operand 0 overlaps buffer 0 of those written, and the kernel does not name the two in exec.in_place; give the result a buffer of its own}}
  exec.launch @kernels::@k reads(%a : memref<4xf32>) writes(%a : memref<4xf32>)
  return
}
module @kernels {
  func.func @k(%x: memref<4xf32>, %y: memref<4xf32>, %begin: index, %end: index)
      attributes {exec.kernel, exec.extent = 4 : i64, exec.grain = 1 : i64} {
    return
  }
}

// -----

// expected-error @below {{exec-to-llvm: has exec.table already, expected a program that was not lowered}}
module attributes {exec.table = []} {
}

// -----

// expected-error @below {{'exec.call' op stands outside of functions, where nothing runs it; expected it in one}}
exec.call @called
func.func @called() attributes {exec.scratch_bytes = 0 : i64} {
  return
}
