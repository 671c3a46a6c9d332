// RUN: sheaf-opt %s --split-input-file --verify-diagnostics --exec-verify-races

// A wait that was dropped.
func.func @dropped(%x: memref<8xf32>, %y: memref<8xf32>) {
  %h = exec.buffer : memref<i64>
  // expected-error @below {{starts permute, which is under way when its block ends; expected an exec.wait for its handle in the same block}}
  exec.collective permute reads(%x : memref<8xf32>) writes(%y, %h : memref<8xf32>, memref<i64>) sizes [2] strides [1] targets [1, 0]
  // expected-note @below {{the block ends here}}
  return
}

// -----

// What comes is read in front of the wait.
func.func @early(%x: memref<8xf32>, %y: memref<8xf32>) {
  %a = exec.buffer : memref<8xf32>
  %h = exec.buffer : memref<i64>
  // expected-note @below {{all_gather is started here}}
  exec.collective all_gather reads(%x : memref<8xf32>) writes(%a, %h : memref<8xf32>, memref<i64>) sizes [1] strides [1]
  // expected-error @below {{reads bytes 0 to 31 of a temporary buffer while all_gather receives into them; expected the wait in front of this op, or the start behind it}}
  exec.copy reads(%a : memref<8xf32>) writes(%y : memref<8xf32>)
  // expected-note @below {{and waited for here}}
  exec.wait reads(%h, %x : memref<i64>, memref<8xf32>) writes(%a : memref<8xf32>)
  return
}

// -----

// What is sent is written in front of the wait, through a view, and in part.
func.func @overwritten(%x: memref<8xf32>, %y: memref<8xf32>, %w: memref<4xf32>) {
  %a = exec.buffer : memref<8xf32>
  %h = exec.buffer : memref<i64>
  %v = exec.view %a offset 16 : memref<8xf32> to memref<4xf32>
  exec.copy reads(%x : memref<8xf32>) writes(%a : memref<8xf32>)
  // expected-note @below {{send is started here}}
  exec.start send reads(%a : memref<8xf32>) writes(%h : memref<i64>) peer 1 size 2 stride 1
  // expected-error @below {{writes bytes 16 to 31 of a temporary buffer while send sends them}}
  exec.copy reads(%w : memref<4xf32>) writes(%v : memref<4xf32>)
  // expected-note @below {{and waited for here}}
  exec.wait reads(%h, %a : memref<i64>, memref<8xf32>)
  return
}

// -----

// Two arguments of an entry with one name are one buffer; a wait that is nowhere.
func.func @entry(%w: memref<8xf32>, %x: memref<8xf32>, %out: memref<8xf32>)
    attributes {exec.entry = [["parameter", "w"], ["input", "x"], ["parameter", "w"]], exec.read_count = 2 : i64} {
  %h = exec.buffer : memref<i64>
  %a = exec.buffer : memref<16xf32>
  // expected-note @below {{all_gather is started here}}
  exec.collective all_gather reads(%w : memref<8xf32>) writes(%a, %h : memref<16xf32>, memref<i64>) sizes [2] strides [1]
  // expected-error @below {{writes bytes 0 to 31 of parameter 'w' while all_gather sends them}}
  exec.copy reads(%x : memref<8xf32>) writes(%out : memref<8xf32>)
  return
}

// -----

// A part that is known by a number that moves may be any of them.
func.func @part(%x: memref<4xf32>, %y: memref<8xf32>, %i: index) {
  %h = exec.buffer : memref<i64>
  %first = exec.view %y : memref<8xf32> to memref<4xf32>
  %any = exec.part %y[%i] : memref<8xf32> to memref<4xf32>
  // expected-note @below {{receive is started here}}
  exec.start receive writes(%first, %h : memref<4xf32>, memref<i64>) peer 1 size 2 stride 1
  // expected-error @below {{writes some of bytes 0 to 15 of argument 1 while receive receives into them}}
  exec.copy reads(%x : memref<4xf32>) writes(%any : memref<4xf32>)
  // expected-note @below {{and waited for here}}
  exec.wait reads(%h : memref<i64>) writes(%first : memref<4xf32>)
  return
}

// -----

// Nobody knows what a branch hands over.
func.func @branch(%x: memref<8xf32>, %y: memref<8xf32>, %c: i1) {
  %a = exec.buffer : memref<8xf32>
  %b = exec.buffer : memref<8xf32>
  %h = exec.buffer : memref<i64>
  %s = arith.select %c, %a, %b : memref<8xf32>
  exec.copy reads(%x : memref<8xf32>) writes(%a : memref<8xf32>)
  // expected-note @below {{send is started here}}
  exec.start send reads(%a : memref<8xf32>) writes(%h : memref<i64>) peer 1 size 2 stride 1
  // expected-error @below {{writes a buffer that may be any while send sends them}}
  exec.copy reads(%x : memref<8xf32>) writes(%s : memref<8xf32>)
  // expected-note @below {{and waited for here}}
  exec.wait reads(%h, %a : memref<i64>, memref<8xf32>)
  return
}

// -----

// Nor what becomes of it.
func.func @unknown(%x: memref<8xf32>, %y: memref<8xf32>, %c: i1) {
  %h = exec.buffer : memref<i64>
  %s = arith.select %c, %x, %y : memref<8xf32>
  // expected-note @below {{receive is started here}}
  exec.start receive writes(%s, %h : memref<8xf32>, memref<i64>) peer 1 size 2 stride 1
  %b = exec.buffer : memref<8xf32>
  // expected-error @below {{reads bytes 0 to 31 of argument 0 while receive receives into them}}
  exec.copy reads(%x : memref<8xf32>) writes(%b : memref<8xf32>)
  // expected-note @below {{and waited for here}}
  exec.wait reads(%h : memref<i64>) writes(%s : memref<8xf32>)
  return
}

// -----

// Two transfers on channels that nothing orders.
func.func @channels(%x: memref<8xf32>, %y: memref<8xf32>) {
  %a = exec.buffer : memref<8xf32>
  %h = exec.buffer : memref<i64>
  %g = exec.buffer : memref<i64>
  // expected-note @below {{all_reduce is started here}}
  exec.collective all_reduce by sum reads(%x : memref<8xf32>) writes(%a, %h : memref<8xf32>, memref<i64>) sizes [2] strides [1] channel 2
  // expected-error @below {{reads bytes 0 to 31 of a temporary buffer while all_reduce receives into them, and nothing orders its communicator, group [2] x [1], channel 1, behind that of the other, group [2] x [1], channel 2; expected the wait in front of this op}}
  exec.collective permute reads(%a : memref<8xf32>) writes(%y, %g : memref<8xf32>, memref<i64>) sizes [2] strides [1] channel 1 targets [1, 0]
  // expected-note @below {{and waited for here}}
  exec.wait reads(%h, %x : memref<i64>, memref<8xf32>) writes(%a : memref<8xf32>)
  exec.wait reads(%g, %a : memref<i64>, memref<8xf32>) writes(%y : memref<8xf32>)
  return
}

// -----

// On one communicator, too, and one that does not only start.
func.func @blocking(%x: memref<8xf32>, %y: memref<8xf32>) {
  %h = exec.buffer : memref<i64>
  // expected-note @below {{all_reduce is started here}}
  exec.collective all_reduce by sum reads(%x : memref<8xf32>) writes(%x, %h : memref<8xf32>, memref<i64>) sizes [2] strides [1]
  // expected-error @below {{reads bytes 0 to 31 of argument 0 while all_reduce receives into them; expected}}
  exec.collective all_reduce by max reads(%x : memref<8xf32>) writes(%y : memref<8xf32>) sizes [2] strides [1]
  // expected-note @below {{and waited for here}}
  exec.wait reads(%h, %x : memref<i64>, memref<8xf32>) writes(%x : memref<8xf32>)
  return
}

// -----

// A handle is no place for anything else, nor for another handle.
func.func @handle(%x: memref<8xf32>, %y: memref<8xf32>) {
  %h = exec.buffer : memref<i64>
  // expected-note @below {{send is started here}}
  exec.start send reads(%x : memref<8xf32>) writes(%h : memref<i64>) peer 1 size 2 stride 1
  // expected-error @below {{writes bytes 0 to 7 of a temporary buffer while send has its handle in them}}
  exec.start receive writes(%y, %h : memref<8xf32>, memref<i64>) peer 1 size 2 stride 1
  // expected-note @below {{and waited for here}}
  exec.wait reads(%h : memref<i64>) writes(%y : memref<8xf32>)
  return
}

// -----

// A call reads and writes what it is handed.
func.func private @layer(%x: memref<8xf32>, %y: memref<8xf32>) attributes {exec.read_count = 1 : i64} {
  exec.copy reads(%x : memref<8xf32>) writes(%y : memref<8xf32>)
  return
}
func.func @call(%s: memref<4xf32>, %y: memref<8xf32>) {
  %w = exec.buffer : memref<8xf32>
  %h = exec.buffer : memref<i64>
  // expected-note @below {{all_gather is started here}}
  exec.collective all_gather reads(%s : memref<4xf32>) writes(%w, %h : memref<8xf32>, memref<i64>) sizes [2] strides [1] channel 1
  // expected-error @below {{reads bytes 0 to 31 of a temporary buffer while all_gather receives into them}}
  exec.call @layer reads(%w : memref<8xf32>) writes(%y : memref<8xf32>)
  // expected-note @below {{and waited for here}}
  exec.wait reads(%h, %s : memref<i64>, memref<4xf32>) writes(%w : memref<8xf32>)
  return
}

// -----

// A layer whose arguments are one buffer where it is called.
func.func private @layer(%x: memref<8xf32>, %y: memref<8xf32>, %z: memref<8xf32>) attributes {exec.read_count = 2 : i64} {
  %h = exec.buffer : memref<i64>
  // expected-note @below {{send is started here}}
  exec.start send reads(%x : memref<8xf32>) writes(%h : memref<i64>) peer 1 size 2 stride 1
  // expected-error @below {{writes bytes 16 to 31 of argument 0 while send sends them}}
  exec.copy reads(%y : memref<8xf32>) writes(%z : memref<8xf32>)
  // expected-note @below {{and waited for here}}
  exec.wait reads(%h, %x : memref<i64>, memref<8xf32>)
  return
}
func.func @call(%x: memref<12xf32>, %y: memref<8xf32>, %z: memref<8xf32>) {
  %low = exec.view %x : memref<12xf32> to memref<8xf32>
  %high = exec.view %x offset 16 : memref<12xf32> to memref<8xf32>
  exec.call @layer reads(%low, %y : memref<8xf32>, memref<8xf32>) writes(%z : memref<8xf32>)
  // expected-note @below {{where 'layer' is handed the same bytes as several arguments}}
  exec.call @layer reads(%low, %y : memref<8xf32>, memref<8xf32>) writes(%high : memref<8xf32>)
  return
}

// -----

// A layer that does not do what callers believe.
func.func private @layer(%x: memref<8xf32>, %y: memref<8xf32>) attributes {exec.read_count = 2 : i64} {
  // expected-error @below {{writes argument 1, one of the 2 that the function only reads; expected it among those that it writes}}
  exec.copy reads(%x : memref<8xf32>) writes(%y : memref<8xf32>)
  return
}

// -----

// Loops: a start that an iteration does not wait for, and a wait for one outside.
func.func @loops(%x: memref<8xf32>, %y: memref<8xf32>, %z: memref<8xf32>) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %h = exec.buffer : memref<i64>
  %g = exec.buffer : memref<i64>
  // expected-note @below {{receive is started here}}
  exec.start receive writes(%y, %g : memref<8xf32>, memref<i64>) peer 1 size 2 stride 1
  // expected-note @below {{the block ends here}}
  scf.for %i = %zero to %one step %one {
    // expected-error @below {{waits for a transfer that was started in another block; expected the wait in the block of the start, in front of the op that this one is in}}
    exec.wait reads(%g : memref<i64>) writes(%y : memref<8xf32>)
    // expected-error @below {{starts send, which is under way when its block ends}}
    exec.start send reads(%x : memref<8xf32>) writes(%h : memref<i64>) peer 1 size 2 stride 1
  }
  exec.wait reads(%h, %x : memref<i64>, memref<8xf32>)
  return
}

// -----

// Two waits, and one too many.
func.func @twice(%x: memref<8xf32>, %y: memref<8xf32>) {
  %h = exec.buffer : memref<i64>
  %g = exec.buffer : memref<i64>
  exec.start receive writes(%y, %h : memref<8xf32>, memref<i64>) peer 1 size 2 stride 1
  // expected-note @below {{waited for here}}
  exec.wait reads(%h : memref<i64>) writes(%y : memref<8xf32>)
  // expected-error @below {{waits for a transfer that was waited for already; expected one wait for each start}}
  exec.wait reads(%h : memref<i64>) writes(%y : memref<8xf32>)
  // expected-error @below {{waits for a transfer that nothing in front of it in its function has started; expected the start in front of the wait, in the same block}}
  exec.wait reads(%g : memref<i64>) writes(%y : memref<8xf32>)
  return
}

// -----

// A wait with other buffers than the start.
func.func @buffers(%x: memref<8xf32>, %y: memref<8xf32>, %z: memref<8xf32>) {
  %h = exec.buffer : memref<i64>
  // expected-note @below {{permute is started here}}
  exec.collective permute reads(%x : memref<8xf32>) writes(%y, %h : memref<8xf32>, memref<i64>) sizes [2] strides [1] targets [1, 0]
  // expected-error @below {{has bytes 0 to 31 of argument 2 as what is received into, expected bytes 0 to 31 of argument 1, as the start has}}
  exec.wait reads(%h, %x : memref<i64>, memref<8xf32>) writes(%z : memref<8xf32>)
  // expected-note @below {{receive is started here}}
  exec.start receive writes(%y, %h : memref<8xf32>, memref<i64>) peer 1 size 2 stride 1
  // expected-error @below {{has bytes 0 to 31 of argument 1 as what is sent, expected none, as the start has none}}
  exec.wait reads(%h, %y : memref<i64>, memref<8xf32>)
  return
}

// -----

// A bucket that is reduced in front of its last gradient.
func.func @bucket(%x: memref<4xf32>, %y: memref<8xf32>) {
  %bucket = exec.buffer : memref<8xf32>
  %first = exec.view %bucket : memref<8xf32> to memref<4xf32>
  %last = exec.view %bucket offset 16 : memref<8xf32> to memref<4xf32>
  exec.copy reads(%x : memref<4xf32>) writes(%first : memref<4xf32>)
  // expected-error @below {{sends bytes 16 to 31 of a temporary buffer, which nothing has written; expected this op behind all that write them}}
  exec.collective all_reduce by sum reads(%bucket : memref<8xf32>) writes(%y : memref<8xf32>) sizes [2] strides [1] channel 2
  // expected-note @below {{they are written here}}
  exec.copy reads(%x : memref<4xf32>) writes(%last : memref<4xf32>)
  return
}

// -----

// In a loop, a buffer that only a later op of the first iteration would write.
func.func @loop(%x: memref<8xf32>, %y: memref<8xf32>) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %two = arith.constant 2 : index
  %a = exec.buffer : memref<8xf32>
  scf.for %i = %zero to %two step %one {
    // expected-error @below {{reads bytes 0 to 31 of a temporary buffer, which nothing has written}}
    exec.copy reads(%a : memref<8xf32>) writes(%y : memref<8xf32>)
    // expected-note @below {{they are written here}}
    exec.copy reads(%x : memref<8xf32>) writes(%a : memref<8xf32>)
  }
  return
}

// -----

// A sum starts from something.
func.func @accumulate(%x: memref<4x4xf32>, %y: memref<4x4xf32>) {
  %a = exec.buffer : memref<4x4xf32>
  // expected-error @below {{reads bytes 0 to 63 of a temporary buffer, which nothing has written}}
  exec.matmul reads(%x, %x : memref<4x4xf32>, memref<4x4xf32>) writes(%a : memref<4x4xf32>) dims [4, 4, 4] leading [4, 4, 4] accumulate
  exec.copy reads(%a : memref<4x4xf32>) writes(%y : memref<4x4xf32>)
  return
}

// -----

// Placed: bytes that are used again while something is under way in them.
func.func @freed(%x: memref<8xf32>, %y: memref<8xf32>, %w: memref<16xf32>) attributes {exec.scratch_bytes = 128 : i64} {
  %a = exec.buffer at 0 : memref<8xf32>
  %h = exec.buffer at 64 : memref<i64>
  %b = exec.buffer at 0 : memref<16xf32>
  exec.copy reads(%x : memref<8xf32>) writes(%a : memref<8xf32>)
  // expected-note @below {{all_reduce is started here}}
  exec.collective all_reduce by sum reads(%a : memref<8xf32>) writes(%y, %h : memref<8xf32>, memref<i64>) sizes [2] strides [1]
  // expected-error @below {{writes bytes 0 to 31 of the scratch memory while all_reduce sends them}}
  exec.copy reads(%w : memref<16xf32>) writes(%b : memref<16xf32>)
  // expected-note @below {{and waited for here}}
  exec.wait reads(%h, %a : memref<i64>, memref<8xf32>) writes(%y : memref<8xf32>)
  return
}

// -----

// Scratch memory of a call where something comes in, and where an argument is.
func.func private @scratch(%x: memref<8xf32>, %y: memref<8xf32>) attributes {exec.read_count = 1 : i64, exec.scratch_bytes = 64 : i64} {
  %a = exec.buffer at 0 : memref<8xf32>
  exec.copy reads(%x : memref<8xf32>) writes(%a : memref<8xf32>)
  exec.copy reads(%a : memref<8xf32>) writes(%y : memref<8xf32>)
  return
}
func.func @landing(%x: memref<8xf32>, %y: memref<8xf32>) attributes {exec.scratch_bytes = 256 : i64} {
  %a = exec.buffer at 128 : memref<8xf32>
  %h = exec.buffer at 0 : memref<i64>
  // expected-note @below {{receive is started here}}
  exec.start receive writes(%a, %h : memref<8xf32>, memref<i64>) peer 1 size 2 stride 1
  // expected-error @below {{has scratch memory in bytes 128 to 159 of the scratch memory while receive receives into them}}
  exec.call @scratch reads(%x : memref<8xf32>) writes(%y : memref<8xf32>) scratch 128
  // expected-note @below {{and waited for here}}
  exec.wait reads(%h : memref<i64>) writes(%a : memref<8xf32>)
  exec.copy reads(%a : memref<8xf32>) writes(%y : memref<8xf32>)
  // expected-error @below {{hands over bytes 128 to 159 of the scratch memory, which are scratch memory of 'scratch', too; expected another place for one of the two}}
  exec.call @scratch reads(%a : memref<8xf32>) writes(%y : memref<8xf32>) scratch 128
  return
}

// -----

// Bytes that another buffer was written over; in a loop only the second iteration finds them so.
func.func @over(%x: memref<8xf32>, %y: memref<8xf32>, %z: memref<8xf32>) attributes {exec.scratch_bytes = 128 : i64} {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %two = arith.constant 2 : index
  %a = exec.buffer at 0 : memref<8xf32>
  %b = exec.buffer at 16 : memref<8xf32>
  exec.copy reads(%x : memref<8xf32>) writes(%a : memref<8xf32>)
  scf.for %i = %zero to %two step %one {
    // expected-error @below {{reads bytes 16 to 31 of the scratch memory, which held something else when another buffer was written there; expected places of their own, or this op in front of that}}
    exec.copy reads(%a : memref<8xf32>) writes(%y : memref<8xf32>)
    // expected-note @below {{written over here}}
    exec.copy reads(%x : memref<8xf32>) writes(%b : memref<8xf32>)
    exec.copy reads(%b : memref<8xf32>) writes(%z : memref<8xf32>)
  }
  return
}
