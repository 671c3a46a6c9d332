// Composite ops, each one kernel.
func.func @softmax(%x: tensor<4x6x70xFT>) -> tensor<4x6x70xFT> attributes {exec.kernel} {
  %y = nn.softmax %x dim 2 : tensor<4x6x70xFT>
  return %y : tensor<4x6x70xFT>
}
func.func @softmax_small(%x: tensor<40x8xFT>) -> tensor<40x8xFT> attributes {exec.kernel} {
  %y = nn.softmax %x dim 1 : tensor<40x8xFT>
  return %y : tensor<40x8xFT>
}
func.func @softmax_middle(%x: tensor<4x30x20xFT>) -> tensor<4x30x20xFT> attributes {exec.kernel} {
  %y = nn.softmax %x dim 1 : tensor<4x30x20xFT>
  return %y : tensor<4x30x20xFT>
}
func.func @softmax_outer(%x: tensor<30x100xFT>) -> tensor<30x100xFT> attributes {exec.kernel} {
  %y = nn.softmax %x dim 0 : tensor<30x100xFT>
  return %y : tensor<30x100xFT>
}
func.func @softmax_one(%x: tensor<30x1xFT>) -> tensor<30x1xFT> attributes {exec.kernel} {
  %y = nn.softmax %x dim 1 : tensor<30x1xFT>
  return %y : tensor<30x1xFT>
}
func.func @softmax_special(%x: tensor<100x3xFT>) -> tensor<100x3xFT> attributes {exec.kernel, test.special} {
  %y = nn.softmax %x dim 1 : tensor<100x3xFT>
  return %y : tensor<100x3xFT>
}
func.func @layer_norm(%x: tensor<4x6x70xFT>, %s: tensor<70xFT>, %b: tensor<70xFT>) -> tensor<4x6x70xFT> attributes {exec.kernel, test.tolerance = 4.0} {
  %y = nn.layer_norm %x, %s, %b eps 1.0e-5 : (tensor<4x6x70xFT>, tensor<70xFT>, tensor<70xFT>) -> tensor<4x6x70xFT>
  return %y : tensor<4x6x70xFT>
}
func.func @rms_norm(%x: tensor<4x6x70xFT>, %s: tensor<70xFT>) -> tensor<4x6x70xFT> attributes {exec.kernel, test.tolerance = 4.0} {
  %y = nn.rms_norm %x, %s eps 1.0e-5 : (tensor<4x6x70xFT>, tensor<70xFT>) -> tensor<4x6x70xFT>
  return %y : tensor<4x6x70xFT>
}
func.func @rotary(%x: tensor<2x10x3x40xFT>, %p: tensor<10xi32> {test.range = [0.0, 100.0]}) -> tensor<2x10x3x40xFT> attributes {exec.kernel, test.tolerance = 20.0} {
  %y = nn.rotary %x, %p theta 10000.0 : (tensor<2x10x3x40xFT>, tensor<10xi32>) -> tensor<2x10x3x40xFT>
  return %y : tensor<2x10x3x40xFT>
}
func.func @rotary_inverse(%x: tensor<2x10x3x8xFT>, %p: tensor<2x10xi32> {test.range = [0.0, 100.0]}) -> tensor<2x10x3x8xFT> attributes {exec.kernel, test.tolerance = 20.0} {
  %y = nn.rotary %x, %p theta 500000.0 scaling <llama3, factor = 8.0, low = 1.0, high = 4.0, original = 8192> inverse : (tensor<2x10x3x8xFT>, tensor<2x10xi32>) -> tensor<2x10x3x8xFT>
  return %y : tensor<2x10x3x8xFT>
}
func.func @cross_entropy(%x: tensor<4x6x100xFT>, %t: tensor<4x6xi32> {test.range = [-5.0, 99.0]}) -> (tensor<4x6xST>, tensor<4x6xST>) attributes {exec.kernel, test.tolerance = 4.0} {
  %l, %e = nn.cross_entropy %x, %t : (tensor<4x6x100xFT>, tensor<4x6xi32>) -> (tensor<4x6xST>, tensor<4x6xST>)
  return %l, %e : tensor<4x6xST>, tensor<4x6xST>
}
func.func @cross_entropy_smoothing(%x: tensor<24x101xFT>, %t: tensor<24xi32> {test.range = [0.0, 110.0]}) -> (tensor<24xST>, tensor<24xST>) attributes {exec.kernel, test.tolerance = 4.0} {
  %l, %e = nn.cross_entropy %x, %t smoothing 0.1 : (tensor<24x101xFT>, tensor<24xi32>) -> (tensor<24xST>, tensor<24xST>)
  return %l, %e : tensor<24xST>, tensor<24xST>
}
func.func @cross_entropy_both(%x: tensor<24x130xFT>, %t: tensor<24xi32> {test.range = [-5.0, 129.0]}, %g: tensor<24xST>, %h: tensor<24xST>) -> (tensor<24xST>, tensor<24x130xFT>) attributes {exec.kernel, test.tolerance = 4.0} {
  %l, %e = nn.cross_entropy %x, %t : (tensor<24x130xFT>, tensor<24xi32>) -> (tensor<24xST>, tensor<24xST>)
  %d = nn.cross_entropy_grad %x, %t, %e grad %g, %h : (tensor<24x130xFT>, tensor<24xi32>, tensor<24xST>, tensor<24xST>, tensor<24xST>) -> tensor<24x130xFT>
  return %l, %d : tensor<24xST>, tensor<24x130xFT>
}
func.func @cross_entropy_both_special(%x: tensor<24x7xFT>, %t: tensor<24xi32> {test.range = [0.0, 6.0]}, %g: tensor<24xST>) -> (tensor<24xST>, tensor<24x7xFT>) attributes {exec.kernel, test.tolerance = 4.0, test.special} {
  %l, %e = nn.cross_entropy %x, %t : (tensor<24x7xFT>, tensor<24xi32>) -> (tensor<24xST>, tensor<24xST>)
  %d = nn.cross_entropy_grad %x, %t, %e grad %g : (tensor<24x7xFT>, tensor<24xi32>, tensor<24xST>, tensor<24xST>) -> tensor<24x7xFT>
  return %l, %d : tensor<24xST>, tensor<24x7xFT>
}
// The log-sum-exp has 0 for -infinity and the maximum does not: rows of -infinity are NaN
// in the first exponential and 0 in the second.
func.func @exponentials_of_raw_maximum(%in: tensor<24x7xf32>, %empty: tensor<24x1xi1>) -> (tensor<24xf32>, tensor<24x7xf32>) attributes {exec.kernel, test.tolerance = 4.0} {
  %none = nn.constant dense<0xFF800000> : tensor<f32>
  %zero = nn.constant dense<0.0> : tensor<f32>
  %x = nn.select %empty, %none, %in : (tensor<24x1xi1>, tensor<f32>, tensor<24x7xf32>) -> tensor<24x7xf32>
  %m = nn.reduce max %x dims [1] keep : (tensor<24x7xf32>) -> tensor<24x1xf32>
  %c = nn.sub %x, %m : (tensor<24x7xf32>, tensor<24x1xf32>) -> tensor<24x7xf32>
  %e = nn.exp %c : tensor<24x7xf32>
  %s = nn.reduce sum %e dims [1] keep : (tensor<24x7xf32>) -> tensor<24x1xf32>
  %l = nn.log %s : tensor<24x1xf32>
  %lse = nn.add %m, %l : tensor<24x1xf32>
  %is = nn.compare eq %m, %none : (tensor<24x1xf32>, tensor<f32>) -> tensor<24x1xi1>
  %shift = nn.select %is, %zero, %lse : (tensor<24x1xi1>, tensor<f32>, tensor<24x1xf32>) -> tensor<24x1xf32>
  %d = nn.sub %x, %shift : (tensor<24x7xf32>, tensor<24x1xf32>) -> tensor<24x7xf32>
  %p = nn.exp %d : tensor<24x7xf32>
  %r = nn.reshape %shift : tensor<24x1xf32> -> tensor<24xf32>
  return %r, %p : tensor<24xf32>, tensor<24x7xf32>
}
func.func @cross_entropy_grad(%x: tensor<4x6x100xFT>, %t: tensor<4x6xi32> {test.range = [-5.0, 99.0]}, %l: tensor<4x6xST> {test.range = [4.0, 7.0]}, %g: tensor<4x6xST>, %h: tensor<4x6xST>) -> tensor<4x6x100xFT> attributes {exec.kernel, test.tolerance = 4.0} {
  %d = nn.cross_entropy_grad %x, %t, %l grad %g, %h smoothing 0.2 : (tensor<4x6x100xFT>, tensor<4x6xi32>, tensor<4x6xST>, tensor<4x6xST>, tensor<4x6xST>) -> tensor<4x6x100xFT>
  return %d : tensor<4x6x100xFT>
}
func.func @step_mean(%x: tensor<4x60xFT>, %w: tensor<4x60xi1>) -> tensor<FT> attributes {exec.kernel, test.tolerance = 8.0} {
  %l = nn.step_mean %x weights %w : (tensor<4x60xFT>, tensor<4x60xi1>) -> tensor<FT>
  return %l : tensor<FT>
}
func.func @adamw(%p: tensor<70x33xf32>, %g: tensor<70x33xf32>, %m: tensor<70x33xf32>, %v: tensor<70x33xf32> {test.range = [0.0, 1.0]}, %lr: tensor<f32>, %b1: tensor<f32> {test.range = [0.9, 0.95]}, %b2: tensor<f32> {test.range = [0.9, 0.99]}, %eps: tensor<f32> {test.range = [0.1, 0.2]}, %wd: tensor<f32>, %c1: tensor<f32> {test.range = [0.1, 0.2]}, %c2: tensor<f32> {test.range = [0.1, 0.2]}, %s: tensor<f32>) -> (tensor<70x33xf32>, tensor<70x33xf32>, tensor<70x33xf32>) attributes {exec.kernel, test.tolerance = 8.0} {
  %p1, %m1, %v1 = nn.adamw %p, %g, %m, %v lr %lr beta1 %b1 beta2 %b2 eps %eps decay %wd corrections %c1, %c2 grad_scale %s : (tensor<70x33xf32>, tensor<70x33xf32>, tensor<70x33xf32>, tensor<70x33xf32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<70x33xf32>, tensor<70x33xf32>, tensor<70x33xf32>)
  return %p1, %m1, %v1 : tensor<70x33xf32>, tensor<70x33xf32>, tensor<70x33xf32>
}
func.func @sgd(%p: tensor<70x33xf32>, %g: tensor<70x33xf32>, %b: tensor<70x33xf32>, %lr: tensor<f32>, %mu: tensor<f32>, %wd: tensor<f32>, %s: tensor<f32>) -> (tensor<70x33xf32>, tensor<70x33xf32>) attributes {exec.kernel, test.tolerance = 20.0} {
  %p1, %b1 = nn.sgd %p, %g, %b lr %lr momentum %mu decay %wd grad_scale %s : (tensor<70x33xf32>, tensor<70x33xf32>, tensor<70x33xf32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<70x33xf32>, tensor<70x33xf32>)
  return %p1, %b1 : tensor<70x33xf32>, tensor<70x33xf32>
}
func.func @bias_and_activation(%x: tensor<8x10x64xFT>, %b: tensor<64xFT>) -> (tensor<8x10x64xFT>, tensor<8x10x64xFT>) attributes {exec.kernel, test.tolerance = 4.0} {
  %h = nn.add %x, %b : (tensor<8x10x64xFT>, tensor<64xFT>) -> tensor<8x10x64xFT>
  %y = nn.gelu_tanh %h : tensor<8x10x64xFT>
  return %h, %y : tensor<8x10x64xFT>, tensor<8x10x64xFT>
}
func.func @residual_and_norm(%x: tensor<8x10x64xFT>, %r: tensor<8x10x64xFT>, %s: tensor<64xFT>) -> (tensor<8x10x64xFT>, tensor<8x10x64xFT>) attributes {exec.kernel, test.tolerance = 8.0} {
  %h = nn.add %x, %r : tensor<8x10x64xFT>
  %y = nn.rms_norm %h, %s eps 1.0e-6 : (tensor<8x10x64xFT>, tensor<64xFT>) -> tensor<8x10x64xFT>
  return %h, %y : tensor<8x10x64xFT>, tensor<8x10x64xFT>
}
