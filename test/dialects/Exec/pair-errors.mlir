// RUN: sheaf-opt %s --split-input-file --verify-diagnostics

// The other end is in the group.
func.func @peer(%x: tensor<8xf32>) {
  // expected-error@+1 {{'exec.send' op has the peer 4, expected a member of the group, 0 to 3}}
  %h = exec.send %x to 4 size 4 stride 2 : tensor<8xf32>
  return
}

// -----

// A group of one has no other end.
func.func @alone() {
  // expected-error@+1 {{'exec.receive' op has an axis of size 1 and stride 1, expected at least 2 and at least 1}}
  %g, %y = exec.receive from 0 size 1 stride 1 : tensor<8xf32>
  return
}

// -----

// The handle has a buffer of its own.
func.func @handle(%x: memref<8xf32>) {
  // expected-error@+1 {{'exec.start' op reads one buffer and writes the handle, memref<i64>}}
  exec.start send reads(%x : memref<8xf32>) writes(%x : memref<8xf32>) peer 1 size 2 stride 1
  return
}

// -----

func.func @receive(%h: memref<i64>) {
  // expected-error@+1 {{'exec.start' op writes one buffer and the handle, memref<i64>}}
  exec.start receive writes(%h : memref<i64>) peer 1 size 2 stride 1
  return
}

// -----

func.func @wait(%x: memref<8xf32>, %h: memref<i64>) {
  // expected-error@+1 {{'exec.wait' op reads the handle, memref<i64>, and the buffer that is sent, and writes the one that comes}}
  exec.wait reads(%x : memref<8xf32>) writes(%h : memref<i64>)
  return
}

// -----

// expected-error@+1 {{'func.func' op has exec.place = "step", expected the name of an entry and a number, as ["step", 0]}}
func.func @place() attributes {exec.place = "step"} {
  return
}

// -----

func.func @nothing() {
  // expected-error@+1 {{'exec.receive' op result #1 must be tensor of integers or floats of static shape without zeros, but got 'tensor<0xf32>'}}
  %g, %y = exec.receive from 0 size 16 stride 16 : tensor<0xf32>
  return
}
