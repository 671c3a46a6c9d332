// RUN: sheaf-opt %s --split-input-file --verify-roundtrip | FileCheck %s
// RUN: sheaf-opt %s --split-input-file --mlir-print-op-generic | sheaf-opt --split-input-file | FileCheck %s

// Words are printed with one space; one type is printed where all are the same.
// CHECK-LABEL: @words
func.func @words(%x: tensor<4x8xf32>, %k: tensor<4xi32>, %s: tensor<i32>) {
  // CHECK: nn.reduce max %{{.*}} dims [1] keep : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %0 = nn.reduce max %x dims [1] keep : (tensor<4x8xf32>) -> tensor<4x1xf32>
  // CHECK: nn.reduce sum_of_squares %{{.*}} dims [0, 1] : (tensor<4x8xf32>) -> tensor<f32>
  %1 = nn.reduce sum_of_squares %x dims [0, 1] : (tensor<4x8xf32>) -> tensor<f32>
  // CHECK: nn.compare le %{{.*}}, %{{.*}} : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xi1>
  %2 = nn.compare le %x, %0 : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xi1>
  // CHECK: nn.random normal %{{.*}}, %{{.*}} sample_dim : (tensor<4xi32>, tensor<i32>) -> tensor<2xf32>
  %3 = nn.random normal %k, %s sample_dim : (tensor<4xi32>, tensor<i32>) -> tensor<2xf32>
  // CHECK: nn.add %{{.*}}, %{{.*}} : tensor<4x8xf32>
  %4 = nn.add %x, %x : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: nn.add %{{.*}}, %{{.*}} : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %5 = nn.add %x, %1 : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  return
}

// -----

// What has its default is not printed.
// CHECK-LABEL: @defaults
func.func @defaults(%x: tensor<4x8xf32>, %i: tensor<3xi32>, %l: tensor<3xi32>, %y: tensor<3x8xf32>) {
  // CHECK: nn.pad %{{.*}} low [0, 1] high [0, 0] : (tensor<4x8xf32>)
  %0 = nn.pad %x low [0, 1] high [0, 0] value 0.0 : (tensor<4x8xf32>) -> tensor<4x9xf32>
  // CHECK: nn.gather %{{.*}}[%{{.*}}] axis 0 : (tensor<4x8xf32>, tensor<3xi32>)
  %1 = nn.gather %x[%i] axis 0 batch 0 : (tensor<4x8xf32>, tensor<3xi32>) -> tensor<3x8xf32>
  // CHECK: nn.cross_entropy %{{.*}}, %{{.*}} : (tensor<3x8xf32>, tensor<3xi32>)
  %2, %3 = nn.cross_entropy %y, %l smoothing 0.0 : (tensor<3x8xf32>, tensor<3xi32>) -> (tensor<3xf32>, tensor<3xf32>)
  return
}

// -----

// Every element type that some op takes.
// CHECK-LABEL: @element_types
func.func @element_types(%a: tensor<2xf64>, %b: tensor<2xbf16>, %c: tensor<2xf16>,
    %d: tensor<2xf8E4M3FN>, %e: tensor<2xf8E5M2>, %f: tensor<2xi32>, %g: tensor<2xi8>, %h: tensor<2xi1>,
    %i: tensor<2xf8E8M0FNU>) {
  %0 = nn.cast %a : tensor<2xf64> -> tensor<2xbf16>
  %1 = nn.cast %b : tensor<2xbf16> -> tensor<2xf16>
  %2 = nn.cast %c : tensor<2xf16> -> tensor<2xf8E4M3FN>
  %3 = nn.cast %d : tensor<2xf8E4M3FN> -> tensor<2xf8E5M2>
  %4 = nn.cast %e : tensor<2xf8E5M2> -> tensor<2xi32>
  %5 = nn.cast %f : tensor<2xi32> -> tensor<2xi8>
  // CHECK: nn.cast %{{.*}} : tensor<2xi8> -> tensor<2xi1>
  %6 = nn.cast %g : tensor<2xi8> -> tensor<2xi1>
  %7 = nn.not %h : tensor<2xi1>
  // CHECK: nn.cast %{{.*}} : tensor<2xf8E8M0FNU> -> tensor<2xf32>
  %8 = nn.cast %i : tensor<2xf8E8M0FNU> -> tensor<2xf32>
  %9 = nn.cast %8 : tensor<2xf32> -> tensor<2xf8E8M0FNU>
  return
}

// -----

// Statistics of low-precision tensors are f32.
// CHECK-LABEL: @statistics
func.func @statistics(%q: tensor<2x3x4x8xbf16>, %x: tensor<2x8xf16>, %t: tensor<2xi32>) {
  // CHECK: -> (tensor<2x3x4x8xbf16>, tensor<2x3x4xf32>)
  %0, %1 = nn.attention %q, %q, %q : (tensor<2x3x4x8xbf16>, tensor<2x3x4x8xbf16>, tensor<2x3x4x8xbf16>) -> (tensor<2x3x4x8xbf16>, tensor<2x3x4xf32>)
  // CHECK: -> (tensor<2xf32>, tensor<2xf32>)
  %2, %3 = nn.cross_entropy %x, %t : (tensor<2x8xf16>, tensor<2xi32>) -> (tensor<2xf32>, tensor<2xf32>)
  return
}

// -----

// 10^10 elements are legal, as type, constant and result.
// CHECK-LABEL: @large
func.func @large(%x: tensor<100000x100000xf32>, %r: tensor<100000xf32>, %n: tensor<10000000000xi8>) -> tensor<100000x100000xf32> {
  // CHECK: nn.constant dense<1.000000e+00> : tensor<10000000000xf32>
  %0 = nn.constant dense<1.0> : tensor<10000000000xf32>
  %1 = nn.iota dim 0 : tensor<100000x100000xi32>
  %2 = nn.add %x, %r : (tensor<100000x100000xf32>, tensor<100000xf32>) -> tensor<100000x100000xf32>
  %3 = nn.reshape %2 : tensor<100000x100000xf32> -> tensor<10000000000xf32>
  // CHECK: nn.mul %{{.*}}, %{{.*}} : tensor<10000000000xf32>
  %4 = nn.mul %3, %0 : tensor<10000000000xf32>
  %5 = nn.reshape %4 : tensor<10000000000xf32> -> tensor<100000x100000xf32>
  %6 = nn.einsum "ab,cb->ac"(%5, %x) : (tensor<100000x100000xf32>, tensor<100000x100000xf32>) -> tensor<100000x100000xf32>
  return %6 : tensor<100000x100000xf32>
}

// -----

// Numbers of a parameter are the shortest that read back.
// CHECK-LABEL: @parameters
// CHECK-SAME: init = normal(0.02)
// CHECK-SAME: init = constant(1), no_decay
// CHECK-SAME: init = normal(1.0{{[eE]}}-30), frozen
// CHECK-SAME: init = constant(-0.012345678901234568)
// CHECK-SAME: init = constant(0)
func.func private @parameters(
  tensor<4x4xf32> {nn.param = #nn.param<"a", axes = [vocab, embed], init = normal(2.0e-02)>},
  tensor<4xf32> {nn.param = #nn.param<"b", axes = [embed], init = constant(1.000), no_decay>},
  tensor<4xf32> {nn.param = #nn.param<"c", axes = [_], init = normal(1.0e-30), frozen>},
  tensor<4xf32> {nn.param = #nn.param<"d", axes = [_], init = constant(-0.012345678901234568)>},
  tensor<4xf32> {nn.param = #nn.param<"e", axes = [_], init = constant(0)>})

// -----

// Arguments say what they are.
// CHECK-LABEL: @arguments
// CHECK-SAME: nn.batch = "tokens"
// CHECK-SAME: nn.rng
// CHECK-SAME: nn.scalar = "lr"
// CHECK-SAME: nn.state = ["moment1", "wte.weight"]
func.func private @arguments(tensor<4x8xi32> {nn.batch = "tokens"}, tensor<4xi32> {nn.rng},
  tensor<f32> {nn.scalar = "lr", nn.default = 1.0e-3}, tensor<4xf32> {nn.state = ["moment1", "wte.weight"]})

// -----

// How a cast rounds, and where its bits come from.
// CHECK-LABEL: @rounding
func.func @rounding(%x: tensor<2x3xf32>, %k: tensor<4xi32>, %s: tensor<i32>) {
  // CHECK: %[[B:.*]] = nn.random bits %{{.*}}, %{{.*}} sample_dim : (tensor<4xi32>, tensor<i32>) -> tensor<2x3xi32>
  %b = nn.random bits %k, %s sample_dim : (tensor<4xi32>, tensor<i32>) -> tensor<2x3xi32>
  // CHECK: nn.cast %{{.*}} saturate : tensor<2x3xf32> -> tensor<2x3xbf16>
  %0 = nn.cast %x saturate : tensor<2x3xf32> -> tensor<2x3xbf16>
  // CHECK: nn.cast %{{.*}} stochastic %[[B]] : tensor<2x3xf32>, tensor<2x3xi32> -> tensor<2x3xf8E5M2>
  %1 = nn.cast %x stochastic %b : tensor<2x3xf32>, tensor<2x3xi32> -> tensor<2x3xf8E5M2>
  // CHECK: nn.cast %{{.*}} stochastic %[[B]] saturate : tensor<2x3xf32>, tensor<2x3xi32> -> tensor<2x3xf16>
  %2 = nn.cast %x stochastic %b saturate : tensor<2x3xf32>, tensor<2x3xi32> -> tensor<2x3xf16>
  return
}

// -----

// Factors of every granularity; a last block may be shorter, a block longer than its dimension.
// CHECK-LABEL: @scaled
func.func @scaled(%x: tensor<130x200xf32>, %y: tensor<3x5x64xbf16>) {
  // CHECK: nn.quantize %{{.*}} to f8E4M3FN blocks [0, 0] scale exact : (tensor<130x200xf32>) -> (tensor<130x200xf8E4M3FN>, tensor<1x1xf32>)
  %q0, %f0 = nn.quantize %x to f8E4M3FN blocks [0, 0] scale exact : (tensor<130x200xf32>) -> (tensor<130x200xf8E4M3FN>, tensor<1x1xf32>)
  %q1, %f1 = nn.quantize %x to f8E5M2 blocks [1, 0] scale power_of_two : (tensor<130x200xf32>) -> (tensor<130x200xf8E5M2>, tensor<130x1xf32>)
  // CHECK: nn.quantize %{{.*}} to f8E4M3FN blocks [128, 128] scale power_of_two : (tensor<130x200xf32>) -> (tensor<130x200xf8E4M3FN>, tensor<2x2xf32>)
  %q2, %f2 = nn.quantize %x to f8E4M3FN blocks [128, 128] scale power_of_two : (tensor<130x200xf32>) -> (tensor<130x200xf8E4M3FN>, tensor<2x2xf32>)
  // CHECK: nn.quantize %{{.*}} to f8E4M3FN blocks [1, 32] scale e8m0 : (tensor<130x200xf32>) -> (tensor<130x200xf8E4M3FN>, tensor<130x7xf8E8M0FNU>)
  %q3, %f3 = nn.quantize %x to f8E4M3FN blocks [1, 32] scale e8m0 : (tensor<130x200xf32>) -> (tensor<130x200xf8E4M3FN>, tensor<130x7xf8E8M0FNU>)
  %q4, %f4 = nn.quantize %y to f8E5M2 blocks [1, 1, 128] scale exact : (tensor<3x5x64xbf16>) -> (tensor<3x5x64xf8E5M2>, tensor<3x5x1xf32>)
  // CHECK: nn.dequantize %{{.*}}, %{{.*}} blocks [1, 32] : (tensor<130x200xf8E4M3FN>, tensor<130x7xf8E8M0FNU>) -> tensor<130x200xf16>
  %0 = nn.dequantize %q3, %f3 blocks [1, 32] : (tensor<130x200xf8E4M3FN>, tensor<130x7xf8E8M0FNU>) -> tensor<130x200xf16>
  // CHECK: nn.scaled_einsum "mk,nk->mn"(%{{.*}}, %{{.*}}) scales(%{{.*}}, %{{.*}}) blocks [1, 0], [0, 0] : (tensor<130x200xf8E5M2>, tensor<130x200xf8E4M3FN>, tensor<130x1xf32>, tensor<1x1xf32>) -> tensor<130x130xbf16>
  %1 = nn.scaled_einsum "mk,nk->mn"(%q1, %q0) scales(%f1, %f0) blocks [1, 0], [0, 0]
    : (tensor<130x200xf8E5M2>, tensor<130x200xf8E4M3FN>, tensor<130x1xf32>, tensor<1x1xf32>) -> tensor<130x130xbf16>
  return
}
