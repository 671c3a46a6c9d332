// RUN: sheaf-opt %s --split-input-file --verify-diagnostics

func.func @operands(%x: memref<4x32x16xf32>, %w: memref<8x16x24xf32>, %y: memref<4x32x24xf32>) {
  // expected-error @below {{reads three buffers and writes one}}
  exec.grouped_matmul reads(%x, %w : memref<4x32x16xf32>, memref<8x16x24xf32>) writes(%y : memref<4x32x24xf32>) dims [4, 32, 8, 16, 24]
  return
}

// -----

func.func @dims(%x: memref<4x32x16xf32>, %w: memref<8x16x24xf32>, %o: memref<4x9xi32>, %y: memref<4x32x24xf32>) {
  // expected-error @below {{dims are [4, 32, 0, 16, 24], expected five numbers of at least 1: groups, rows, experts, k and n}}
  exec.grouped_matmul reads(%x, %w, %o : memref<4x32x16xf32>, memref<8x16x24xf32>, memref<4x9xi32>) writes(%y : memref<4x32x24xf32>) dims [4, 32, 0, 16, 24]
  return
}

// -----

func.func @matrices(%x: memref<4x32x16xf32>, %w: memref<8x16x23xf32>, %o: memref<4x9xi32>, %y: memref<4x32x24xf32>) {
  // expected-error @below {{the second operand is 'memref<8x16x23xf32>', expected 3072 elements}}
  exec.grouped_matmul reads(%x, %w, %o : memref<4x32x16xf32>, memref<8x16x23xf32>, memref<4x9xi32>) writes(%y : memref<4x32x24xf32>) dims [4, 32, 8, 16, 24]
  return
}

// -----

func.func @offsets(%x: memref<4x32x16xf32>, %w: memref<8x16x24xf32>, %o: memref<4x9xf32>, %y: memref<4x32x24xf32>) {
  // expected-error @below {{the third operand, the offsets, is 'memref<4x9xf32>', expected elements of i32}}
  exec.grouped_matmul reads(%x, %w, %o : memref<4x32x16xf32>, memref<8x16x24xf32>, memref<4x9xf32>) writes(%y : memref<4x32x24xf32>) dims [4, 32, 8, 16, 24]
  return
}

// -----

func.func @parts(%x: memref<4x32x16xf32>, %w: memref<8x16x24xf32>, %o: memref<4x9xi32>, %y: memref<4x32x24xf32>) {
  // expected-error @below {{has 3 parts, expected a divisor of the 4 groups}}
  exec.grouped_matmul reads(%x, %w, %o : memref<4x32x16xf32>, memref<8x16x24xf32>, memref<4x9xi32>) writes(%y : memref<4x32x24xf32>) dims [4, 32, 8, 16, 24] parts 3
  return
}

// -----

func.func @both(%x: memref<4x32x16xf32>, %w: memref<8x16x24xf32>, %o: memref<4x9xi32>, %y: memref<4x32x24xf32>) {
  // expected-error @below {{is 'outer' and 'transposed', expected one of them}}
  exec.grouped_matmul reads(%x, %y, %o : memref<4x32x16xf32>, memref<4x32x24xf32>, memref<4x9xi32>) writes(%w : memref<8x16x24xf32>) dims [4, 32, 8, 16, 24] transposed outer
  return
}

// -----

func.func @sum(%x: memref<4x32x16xf32>, %w: memref<8x16x24xf32>, %o: memref<4x9xi32>, %y: memref<4x32x24xf32>) {
  // expected-error @below {{has 'accumulate' without 'outer'}}
  exec.grouped_matmul reads(%x, %w, %o : memref<4x32x16xf32>, memref<8x16x24xf32>, memref<4x9xi32>) writes(%y : memref<4x32x24xf32>) dims [4, 32, 8, 16, 24] accumulate
  return
}
