// RUN: sheaf-opt %s --split-input-file --verify-diagnostics

func.func @reduction(%a: memref<8xf32>, %b: memref<8xf32>) {
  // expected-error @below {{all_reduce needs a reduction: sum, max or min}}
  exec.collective all_reduce reads(%a : memref<8xf32>) writes(%b : memref<8xf32>) sizes [4] strides [1]
  return
}

// -----

func.func @no_reduction(%a: memref<8xf32>, %b: memref<16xf32>) {
  // expected-error @below {{all_gather has a reduction, expected none}}
  exec.collective all_gather by sum reads(%a : memref<8xf32>) writes(%b : memref<16xf32>) sizes [2] strides [1]
  return
}

// -----

func.func @axes(%a: memref<8xf32>, %b: memref<16xf32>) {
  // expected-error @below {{has 2 sizes and 1 strides, expected one for each of at most eight axes}}
  exec.collective all_gather reads(%a : memref<8xf32>) writes(%b : memref<16xf32>) sizes [2, 1] strides [1]
  return
}

// -----

func.func @size(%a: memref<8xf32>, %b: memref<8xf32>) {
  // expected-error @below {{has the axis 0 with stride 1, expected at least 1 each}}
  exec.collective broadcast reads(%a : memref<8xf32>) writes(%b : memref<8xf32>) sizes [0] strides [1]
  return
}

// -----

func.func @elements(%a: memref<8xf32>, %b: memref<8xf32>) {
  // expected-error @below {{all_gather in a group of 2 of 'memref<8xf32>' fills 16 elements, expected 'memref<8xf32>' to have as many}}
  exec.collective all_gather reads(%a : memref<8xf32>) writes(%b : memref<8xf32>) sizes [2] strides [1]
  return
}

// -----

func.func @scatter(%a: memref<9xf32>, %b: memref<4xf32>) {
  // expected-error @below {{cuts 9 elements for a group of 2, expected a multiple}}
  exec.collective reduce_scatter by sum reads(%a : memref<9xf32>) writes(%b : memref<4xf32>) sizes [2] strides [1]
  return
}

// -----

func.func @type(%a: memref<8xf32>, %b: memref<8xi32>) {
  // expected-error @below {{reads elements of 'f32' and writes 'i32'}}
  exec.collective all_to_all reads(%a : memref<8xf32>) writes(%b : memref<8xi32>) sizes [2] strides [1]
  return
}

// -----

func.func @slices(%a: memref<8xf32>, %b: memref<8xf32>) {
  // expected-error @below {{cut 3 and a group of 2 do not divide the buffer's 8 elements}}
  exec.collective all_to_all reads(%a : memref<8xf32>) writes(%b : memref<8xf32>) sizes [2] strides [1] cut 3
  return
}

// -----

func.func @join(%a: memref<8xf32>, %b: memref<4xf32>) {
  // expected-error @below {{reduce_scatter has join 2, expected none}}
  exec.collective reduce_scatter by sum reads(%a : memref<8xf32>) writes(%b : memref<4xf32>) sizes [2] strides [1] join 2
  return
}

// -----

func.func @root(%a: memref<8xf32>, %b: memref<8xf32>) {
  // expected-error @below {{has the root 2, expected a member of a broadcast, 0 to 1}}
  exec.collective broadcast reads(%a : memref<8xf32>) writes(%b : memref<8xf32>) sizes [2] strides [1] root 2
  return
}

// -----

func.func @targets(%a: memref<8xf32>, %b: memref<8xf32>) {
  // expected-error @below {{has the target 1, expected each member once at most, or -1}}
  exec.collective permute reads(%a : memref<8xf32>) writes(%b : memref<8xf32>) sizes [2] strides [1] targets [1, 1]
  return
}

// -----

func.func @no_targets(%a: memref<8xf32>, %b: memref<8xf32>) {
  // expected-error @below {{permute needs targets, one for each member}}
  exec.collective permute reads(%a : memref<8xf32>) writes(%b : memref<8xf32>) sizes [2] strides [1]
  return
}

// -----

func.func @counts_of_others(%a: memref<8xf32>, %n: memref<2xi32>, %b: memref<8xf32>) {
  // expected-error @below {{all_reduce has 2 counts of rows, expected none, or two of an all_to_all}}
  exec.collective all_reduce by sum reads(%a, %n, %n : memref<8xf32>, memref<2xi32>, memref<2xi32>) writes(%b : memref<8xf32>) sizes [2] strides [1]
  return
}

// -----

func.func @one_count(%x: memref<2x4x6x8xf32>, %n: memref<2x4xi32>, %y: memref<1x8x6x8xf32>) {
  // expected-error @below {{all_to_all has 1 counts of rows, expected none, or two of an all_to_all}}
  exec.collective all_to_all reads(%x, %n : memref<2x4x6x8xf32>, memref<2x4xi32>) writes(%y : memref<1x8x6x8xf32>) sizes [2] strides [1]
  return
}

// -----

func.func @wrong_counts(%x: memref<2x4x6x8xf32>, %n: memref<2x4xi32>, %y: memref<1x8x6x8xf32>) {
  // expected-error @below {{counts the rows of 'memref<1x8x6x8xf32>' by 'memref<2x4xi32>', expected i32, one for each block, and blocks of equal sizes on both sides}}
  exec.collective all_to_all reads(%x, %n, %n : memref<2x4x6x8xf32>, memref<2x4xi32>, memref<2x4xi32>) writes(%y : memref<1x8x6x8xf32>) sizes [2] strides [1]
  return
}

// -----

func.func @few_blocks(%x: memref<1x1x6x8xf32>, %n: memref<1x1xi32>, %y: memref<1x1x6x8xf32>) {
  // expected-error @below {{cuts 1 blocks in 1 slices for a group of 2, expected a multiple}}
  exec.collective all_to_all reads(%x, %n, %n : memref<1x1x6x8xf32>, memref<1x1xi32>, memref<1x1xi32>) writes(%y : memref<1x1x6x8xf32>) sizes [2] strides [1]
  return
}

// -----

func.func @started(%a: memref<8xf32>, %b: memref<8xf32>, %h: memref<i32>) {
  // expected-error@+1 {{reads one buffer and writes one, and a handle, memref<i64>, where it is only started}}
  exec.collective permute reads(%a : memref<8xf32>) writes(%b, %h : memref<8xf32>, memref<i32>) sizes [2] strides [1] targets [1, 0]
  return
}

// -----

func.func @started_rows(%x: memref<2x4x6x8xf32>, %n: memref<2x4xi32>, %m: memref<1x8xi32>, %y: memref<1x8x6x8xf32>, %h: memref<i64>) {
  // expected-error@+1 {{is started only and has counts of rows, which are read until it is done; expected one that is waited for}}
  exec.collective all_to_all reads(%x, %n, %m : memref<2x4x6x8xf32>, memref<2x4xi32>, memref<1x8xi32>)
    writes(%y, %h : memref<1x8x6x8xf32>, memref<i64>) sizes [2] strides [1]
  return
}

// -----

func.func @channel(%x: memref<8xf32>, %y: memref<8xf32>) {
  // expected-error@+1 {{is on channel 256, expected one from 0 to 255}}
  exec.collective all_reduce by sum reads(%x : memref<8xf32>) writes(%y : memref<8xf32>) sizes [2] strides [1] channel 256
  return
}
