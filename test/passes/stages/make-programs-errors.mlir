// RUN: sheaf-opt %s --split-input-file --verify-diagnostics --pipe-make-programs
// RUN: not sheaf-opt %s --split-input-file --pipe-make-programs=schedule=zigzag 2>&1 | FileCheck %s
// RUN: not sheaf-opt %s --split-input-file --pipe-make-programs=schedule=file:%t.none 2>&1 | FileCheck %s --check-prefix=FILE
// RUN: echo 'r0: 0F0 0B0' > %t.schedule
// RUN: not sheaf-opt %s --split-input-file --pipe-make-programs=schedule=file:%t.schedule 2>&1 | FileCheck %s --check-prefix=SIZE
// CHECK: error: unknown schedule 'zigzag', expected
// FILE: error: {{.*}}.none: No such file or directory
// SIZE: error: {{.*}}.schedule: is a schedule of 1 ranks and 1 microbatches, expected 2 and 1

// Nothing to cut into programs.
// expected-error@+1 {{has no mesh with an axis pp of at least 2 places (exec.mesh), expected what dist-to-nn leaves of --mesh=pp=2}}
module {
  func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
    return %x : tensor<4xf32>
  }
}

// -----

// expected-error@+1 {{has no entry with stage parts to run on 2 ranks, expected what pipe-cut-stages makes}}
module attributes {exec.mesh = [["pp", 2]]} {
  func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
    return %x : tensor<4xf32>
  }
}

// -----

// A part runs once for a microbatch.
module attributes {exec.mesh = [["pp", 2]]} {
  func.func private @part(%x: tensor<4xf32>) -> tensor<4xf32> attributes {pipe.part = "F", pipe.stage = 0 : i64} {
    return %x : tensor<4xf32>
  }
  func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
    %y = call @part(%x) : (tensor<4xf32>) -> tensor<4xf32>
    // expected-error@+1 {{calls part "F" of stage 0 a second time, expected each part once}}
    %z = call @part(%y) : (tensor<4xf32>) -> tensor<4xf32>
    return %z : tensor<4xf32>
  }
}

// -----

// No rank has both operands, and no rank gets them.
module attributes {exec.mesh = [["pp", 2]]} {
  func.func private @first(%x: tensor<4xf32>) -> tensor<4xf32> attributes {pipe.part = "F", pipe.stage = 0 : i64} {
    return %x : tensor<4xf32>
  }
  func.func private @second(%x: tensor<4xf32>) -> tensor<4xf32> attributes {pipe.part = "F", pipe.stage = 1 : i64} {
    return %x : tensor<4xf32>
  }
  func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
    // expected-note@+1 {{operand 0 is known along pp at 0}}
    %y = call @first(%x) : (tensor<4xf32>) -> tensor<4xf32>
    // expected-note@+1 {{operand 1 is known along pp at 1}}
    %z = call @second(%y) : (tensor<4xf32>) -> tensor<4xf32>
    // expected-error@+1 {{reads values of several stages that no rank has together, expected a sum}}
    %p = nn.mul %y, %z : tensor<4xf32>
    return %p : tensor<4xf32>
  }
}

// -----

// A program is made of each entry, so none is there to be called.
module attributes {exec.mesh = [["pp", 2]]} {
  func.func private @part(%x: tensor<4xf32>) -> tensor<4xf32> attributes {pipe.part = "F", pipe.stage = 0 : i64} {
    return %x : tensor<4xf32>
  }
  func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
    %y = call @part(%x) : (tensor<4xf32>) -> tensor<4xf32>
    return %y : tensor<4xf32>
  }
  func.func @g(%x: tensor<4xf32>) -> tensor<4xf32> {
    // expected-error@+1 {{calls @f, an entry, which becomes a program for each place along pp; expected a private function}}
    %y = call @f(%x) : (tensor<4xf32>) -> tensor<4xf32>
    return %y : tensor<4xf32>
  }
}

// -----

module attributes {exec.mesh = [["pp", 2]]} {
  func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
    // expected-error@+1 {{calls @f, which is being called: recursion is not supported, write the layers one by one}}
    %y = call @f(%x) : (tensor<4xf32>) -> tensor<4xf32>
    return %y : tensor<4xf32>
  }
}
