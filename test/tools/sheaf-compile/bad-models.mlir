// Models that cannot be compiled are refused with what was found and expected, and
// leave no file.
// RUN: rm -rf %t && split-file %s %t
// RUN: not sheaf-compile %t/empty.mlir -o %t/out 2>&1 | FileCheck %s --check-prefix=EMPTY
// EMPTY: error: {{.*}}has no function, expected @loss or functions to call
// RUN: not sheaf-compile %t/nested.mlir -o %t/out 2>&1 | FileCheck %s --check-prefix=NESTED
// NESTED: error: 'builtin.module' op is not compiled; a module holds functions (func.func) alone
// RUN: not sheaf-compile %t/recursive.mlir -o %t/out 2>&1 | FileCheck %s --check-prefix=RECURSIVE
// RECURSIVE: error: 'func.call' op calls @g, which is being called: recursion is not supported
// RUN: not sheaf-compile %t/circle.mlir -o %t/out 2>&1 | FileCheck %s --check-prefix=CIRCLE
// CIRCLE: error: 'func.call' op calls @{{[gh]}}, which is being called
// RUN: not sheaf-compile %t/logits.mlir -o %t/out 2>&1 | FileCheck %s --check-prefix=LOGITS
// LOGITS: error: @logits has results of types ('tensor<f32>'), expected one tensor of [batch, sequence, vocabulary]
// RUN: not sheaf-compile %t/private.mlir -o %t/out 2>&1 | FileCheck %s --check-prefix=PRIVATE
// PRIVATE: error: @loss is private, expected a public function to train
// RUN: not sheaf-compile %t/half.mlir -o %t/out 2>&1 | FileCheck %s --check-prefix=HALF
// HALF: error: @loss has a result of type 'tensor<bf16>', expected tensor<f32> or tensor<f64>; use nn.cast
// RUN: not sheaf-compile %t/unfed.mlir -o %t/out 2>&1 | FileCheck %s --check-prefix=UNFED
// UNFED: error: @loss has the argument 1, which nothing feeds, expected nn.param, nn.batch or nn.rng on it
// RUN: not sheaf-compile %t/batch.mlir -o %t/out 2>&1 | FileCheck %s --check-prefix=BATCH
// BATCH: error: @loss has the batch argument 2 of type 'tensor<2x9xi32>' and another of type 'tensor<2x4xi32>', expected one shape
// RUN: not sheaf-compile %t/dynamic.mlir -o %t/out 2>&1 | FileCheck %s --check-prefix=TYPE
// RUN: not sheaf-compile %t/encoding.mlir -o %t/out 2>&1 | FileCheck %s --check-prefix=TYPE
// RUN: not sheaf-compile %t/wide.mlir -o %t/out 2>&1 | FileCheck %s --check-prefix=TYPE
// TYPE: error: @f has the argument 0 of type {{.*}}, expected a tensor with static dimensions of at least 1, without encoding
// RUN: not sheaf-compile %t/huge.mlir -o %t/out 2>&1 | FileCheck %s --check-prefix=HUGE
// HUGE: error: needs {{[0-9]+}} bytes of scratch memory, expected at most 281474976710656
// RUN: not sheaf-compile %t/large.mlir -o %t/out 2>&1 | FileCheck %s --check-prefix=LARGE
// LARGE: error: uses the input 'f.arg0' of 1125899906842624 bytes, expected at most 281474976710656
// RUN: not sheaf-compile %t/name.mlir -o %t/out 2>&1 | FileCheck %s --check-prefix=NAME
// NAME: error: function is named 'a b', expected letters, digits
// RUN: not sheaf-compile %t/param.mlir -o %t/out 2>&1 | FileCheck %s --check-prefix=PARAM
// PARAM: argument 0 is a parameter whose name is too long or has a control character, expected 1 to 4096 bytes
// RUN: not sheaf-compile %t/deviation.mlir -o %t/out 2>&1 | FileCheck %s --check-prefix=DEVIATION
// DEVIATION: argument 0 starts with the standard deviation -1.000000e+00, expected at least 0
// RUN: not sheaf-compile %t/entry.mlir -o %t/out 2>&1 | FileCheck %s --check-prefix=ENTRY
// ENTRY: error: 'func.func' op has exec.entry = "x", expected an array of [kind, name] for each of the 1 arguments
// RUN: not sheaf-compile %t/step.mlir -o %t/out 2>&1 | FileCheck %s --check-prefix=STEP
// STEP: error: {{.*}}there is {{an?}} @step already
// RUN: ls %t | FileCheck %s --check-prefix=LEFT
// LEFT-NOT: out

//--- empty.mlir
module {}
//--- nested.mlir
func.func @f(%a: tensor<3xf32>) -> tensor<3xf32> { return %a : tensor<3xf32> }
module @inner {}
//--- recursive.mlir
func.func @g(%a: tensor<f32>) -> tensor<f32> {
  %b = call @g(%a) : (tensor<f32>) -> tensor<f32>
  return %b : tensor<f32>
}
//--- circle.mlir
func.func @g(%a: tensor<f32>) -> tensor<f32> {
  %b = call @h(%a) : (tensor<f32>) -> tensor<f32>
  return %b : tensor<f32>
}
func.func private @h(%a: tensor<f32>) -> tensor<f32> attributes {no_inline} {
  %b = call @g(%a) : (tensor<f32>) -> tensor<f32>
  return %b : tensor<f32>
}
//--- logits.mlir
func.func @logits(%a: tensor<f32>) -> tensor<f32> { return %a : tensor<f32> }
func.func @loss(%w: tensor<f32> {nn.param = #nn.param<"w", axes = [], init = constant(0)>}) -> tensor<f32> {
  return %w : tensor<f32>
}
//--- private.mlir
func.func private @loss(%w: tensor<f32> {nn.param = #nn.param<"w", axes = [], init = constant(0)>}) -> tensor<f32> {
  return %w : tensor<f32>
}
//--- half.mlir
func.func @loss(%w: tensor<bf16> {nn.param = #nn.param<"w", axes = [], init = constant(0)>}) -> tensor<bf16> {
  return %w : tensor<bf16>
}
//--- unfed.mlir
func.func @loss(%w: tensor<f32> {nn.param = #nn.param<"w", axes = [], init = constant(0)>},
                %x: tensor<f32>) -> tensor<f32> {
  %y = nn.mul %w, %x : tensor<f32>
  return %y : tensor<f32>
}
//--- batch.mlir
func.func @loss(%w: tensor<f32> {nn.param = #nn.param<"w", axes = [], init = constant(0)>},
                %t: tensor<2x4xi32> {nn.batch = "tokens"},
                %p: tensor<2x9xi32> {nn.batch = "positions"}) -> tensor<f32> {
  return %w : tensor<f32>
}
//--- dynamic.mlir
func.func @f(%a: tensor<?xf32>) { return }
//--- encoding.mlir
func.func @f(%a: tensor<3xf32, "x">) { return }
//--- wide.mlir
func.func @f(%a: tensor<3xi64>) { return }
//--- huge.mlir
func.func @f(%a: tensor<f32>) -> tensor<f32> {
  %b = nn.broadcast %a dims [] : tensor<f32> -> tensor<536870912x1048576xf32>
  %c = nn.transpose %b [1, 0] : (tensor<536870912x1048576xf32>) -> tensor<1048576x536870912xf32>
  %d = nn.einsum "ab,bc->ac"(%b, %c) : (tensor<536870912x1048576xf32>, tensor<1048576x536870912xf32>) -> tensor<536870912x536870912xf32>
  %e = nn.reduce sum %d dims [0, 1] : (tensor<536870912x536870912xf32>) -> tensor<f32>
  return %e : tensor<f32>
}
//--- large.mlir
func.func @f(%a: tensor<16777216x16777216xf32>) { return }
//--- name.mlir
func.func @"a b"(%a: tensor<f32>) { return }
//--- param.mlir
func.func @f(%w: tensor<f32> {nn.param = #nn.param<"a\0Ab", axes = [], init = constant(0)>}) { return }
//--- deviation.mlir
func.func @f(%w: tensor<f32> {nn.param = #nn.param<"a", axes = [], init = normal(-1.0)>}) { return }
//--- entry.mlir
func.func @f(%a: memref<4xf32>) attributes {exec.entry = "x"} { return }
//--- step.mlir
func.func @step(%a: tensor<f32>) -> tensor<f32> { return %a : tensor<f32> }
func.func @loss(%w: tensor<2x3xf32> {nn.param = #nn.param<"w", axes = [_, _], init = constant(0)>},
                %t: tensor<1x2xi32> {nn.batch = "tokens"}) -> tensor<f32> {
  %a = nn.reduce sum %w dims [0, 1] : (tensor<2x3xf32>) -> tensor<f32>
  %b = nn.broadcast %a dims [] : tensor<f32> -> tensor<1x2xf32>
  %zero = nn.constant dense<0> : tensor<i32>
  %valid = nn.compare ge %t, %zero : (tensor<1x2xi32>, tensor<i32>) -> tensor<1x2xi1>
  %l = nn.step_mean %b weights %valid : (tensor<1x2xf32>, tensor<1x2xi1>) -> tensor<f32>
  return %l : tensor<f32>
}
