// RUN: sheaf-opt %s "--nn-apply-precision=recipe=fp8-tensor once=true weights=quantized moments=fp8 gradients=fp8" | FileCheck %s
// RUN: sheaf-opt %s "--nn-apply-precision=recipe=fp8-tensor weights=quantized" | FileCheck %s --check-prefix=INSIDE
// RUN: sheaf-opt %s "--nn-apply-precision=recipe=fp8-block once=true weights=quantized masters=f16" | FileCheck %s --check-prefix=HALF
// RUN: not sheaf-opt %s "--nn-apply-precision=recipe=bf16 weights=quantized" 2>&1 | FileCheck %s --check-prefix=SIXTEEN
// RUN: not sheaf-opt %s "--nn-apply-precision=recipe=mxfp8 weights=quantized masters=none" 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not sheaf-opt %s "--nn-apply-precision=recipe=mxfp8 weights=quantized keep=w" 2>&1 | FileCheck %s --check-prefix=NOTHING
// RUN: not sheaf-opt %s "--nn-apply-precision=recipe=mxfp8 weights=fp8" 2>&1 | FileCheck %s --check-prefix=WORD
// SIXTEEN: option 'weights' is 'quantized', and recipe=bf16 has no products of 8 bits; expected one of fp8-tensor
// NONE: option 'weights' is 'quantized', which leaves of a matrix its master, and option 'masters' is 'none'; expected f32 or f16
// NOTHING: option 'weights' is 'quantized', and there is no matrix that layers read in 8 bits only
// WORD: option 'weights' is 'fp8', expected narrow or quantized

// The layer gets what was made of the matrix, not the matrix.
// CHECK-LABEL: func.func private @layer
// CHECK-SAME: (%[[X:.*]]: tensor<8x256xbf16>, %[[PAYLOAD:.*]]: tensor<256x256xf8E4M3FN>, %[[FACTORS:.*]]: tensor<1x1xf32>) -> tensor<8x256xbf16>
// CHECK: nn.scaled_einsum "te,de->td"(%{{.*}}, %[[PAYLOAD]]) scales(%{{.*}}, %[[FACTORS]])
// Where it quantises for itself, it does so from the master.
// INSIDE-LABEL: func.func private @layer
// INSIDE-SAME: (%{{.*}}: tensor<8x256xbf16>, %[[W:.*]]: tensor<256x256xf32>)
// INSIDE: nn.quantize %[[W]] to f8E4M3FN blocks [0, 0] scale exact
func.func private @layer(%x: tensor<8x256xf32>, %w: tensor<256x256xf32>) -> tensor<8x256xf32> attributes {nn.layer} {
  %y = nn.einsum "te,de->td"(%x, %w) {nn.role = "forward"} : (tensor<8x256xf32>, tensor<256x256xf32>) -> tensor<8x256xf32>
  return %y : tensor<8x256xf32>
}

// The matrix is its master; what other ops read has 16 bits and a master. Moments have factors.
// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[W:arg0]]: tensor<256x256xf32> {nn.param = {{.*}}, nn.quantized}
// CHECK-SAME: %[[P:arg1]]: tensor<8x256xbf16> {nn.param
// CHECK-NOT: nn.quantized
// CHECK-SAME: %[[M:arg2]]: tensor<256x256xf8E4M3FN> {nn.state = ["moment1", "w"]}
// CHECK-SAME: %[[V:arg3]]: tensor<256x256xf16> {nn.state = ["moment2", "w"]}
// CHECK-NOT: "master"
// CHECK-SAME: %[[MF:arg[0-9]+]]: tensor<1x1xf32> {nn.state = ["scaling", "moment1:w"]}
// CHECK-SAME: %[[VF:arg[0-9]+]]: tensor<1x1xf32> {nn.state = ["scaling", "moment2:w"]}
// CHECK-SAME: tensor<256x256xf32> {nn.result = ["parameter", "w"]}
// CHECK-SAME: tensor<256x256xf8E4M3FN> {nn.result = ["moment1", "w"]}
// CHECK-SAME: tensor<1x1xf32> {nn.result = ["scaling", "moment1:w"]}
// CHECK: %[[Q:.*]], %[[F:.*]] = nn.quantize %[[W]] to f8E4M3FN blocks [0, 0] scale exact {nn.role = "forward"}
// CHECK: call @layer(%{{.*}}, %[[Q]], %[[F]])
// CHECK: %[[G:.*]], %[[GF:.*]] = nn.quantize %{{.*}} to f8E4M3FN blocks [0, 0] scale exact {nn.role = "weight_gradient"}
// CHECK: %[[WIDE:.*]] = nn.dequantize %[[G]], %[[GF]] {{.*}}{nn.role = "optimizer"}
// CHECK: nn.reduce sum_of_squares %[[WIDE]]
// CHECK: %[[OLDM:.*]] = nn.dequantize %[[M]], %[[MF]] blocks [0, 0] {nn.role = "optimizer"}
// CHECK: %[[OLDV:.*]] = nn.dequantize %[[V]], %[[VF]] blocks [0, 0] {nn.role = "optimizer"}
// CHECK: %[[NEW:.*]], %[[NEWM:.*]], %[[NEWV:.*]] = nn.adamw %[[W]], %[[WIDE]], %[[OLDM]], %[[OLDV]]
// CHECK: %[[KEPTM:.*]], %[[KEPTMF:.*]] = nn.quantize %[[NEWM]] to f8E4M3FN blocks [0, 0] scale exact
// CHECK: %[[KEPTV:.*]], %[[KEPTVF:.*]] = nn.quantize %[[NEWV]] to f16 blocks [0, 0] scale exact
// CHECK: return %{{.*}}, %{{.*}}, %[[NEW]], %[[KEPTM]], %[[KEPTV]], %[[KEPTMF]], %[[KEPTVF]]

// HALF-LABEL: func.func @step
// HALF-SAME: tensor<256x256xf16> {nn.param = {{.*}}, nn.quantized}
// HALF-NOT: "master"
// HALF: %[[Q:.*]], %[[F:.*]] = nn.quantize %arg0 to f8E4M3FN blocks [128, 128] scale power_of_two {nn.role = "forward"} : (tensor<256x256xf16>)
// HALF: %[[OLD:.*]] = nn.cast %arg0 {nn.role = "optimizer"} : tensor<256x256xf16> -> tensor<256x256xf32>
// HALF: %[[NEW:.*]], %{{.*}}, %{{.*}} = nn.adamw %[[OLD]]
// HALF: %[[KEPT:.*]] = nn.cast %[[NEW]] stochastic %{{.*}} saturate {{.*}}: tensor<256x256xf32>, tensor<256x256xi32> -> tensor<256x256xf16>
// HALF: return %{{.*}}, %{{.*}}, %[[KEPT]]
func.func @step(%w: tensor<256x256xf32> {nn.param = #nn.param<"w", axes = [heads, embed], init = normal(0.02)>},
                %p: tensor<8x256xf32> {nn.param = #nn.param<"pos", axes = [_, embed], init = normal(0.02), frozen>},
                %m: tensor<256x256xf32> {nn.state = ["moment1", "w"]}, %v: tensor<256x256xf32> {nn.state = ["moment2", "w"]},
                %lr: tensor<f32> {nn.scalar = "lr"})
    -> (tensor<f32> {nn.result = ["result", "loss"]}, tensor<f32> {nn.result = ["result", "grad_norm"]},
        tensor<256x256xf32> {nn.result = ["parameter", "w"]}, tensor<256x256xf32> {nn.result = ["moment1", "w"]},
        tensor<256x256xf32> {nn.result = ["moment2", "w"]}) {
  %two = nn.add %p, %p {nn.role = "forward"} : tensor<8x256xf32>
  %y = call @layer(%two, %w) {nn.role = "forward"} : (tensor<8x256xf32>, tensor<256x256xf32>) -> tensor<8x256xf32>
  %g = nn.einsum "td,te->de"(%y, %two) {nn.role = "weight_gradient"} : (tensor<8x256xf32>, tensor<8x256xf32>) -> tensor<256x256xf32>
  %squares = nn.reduce sum_of_squares %g dims [0, 1] {nn.role = "optimizer"} : (tensor<256x256xf32>) -> tensor<f32>
  %norm = nn.sqrt %squares {nn.role = "optimizer"} : tensor<f32>
  %new, %m1, %v1 = nn.adamw %w, %g, %m, %v lr %lr beta1 %lr beta2 %lr eps %lr decay %lr corrections %lr, %lr grad_scale %lr {nn.role = "optimizer"}
    : (tensor<256x256xf32>, tensor<256x256xf32>, tensor<256x256xf32>, tensor<256x256xf32>, tensor<f32>, tensor<f32>, tensor<f32>,
       tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<256x256xf32>, tensor<256x256xf32>, tensor<256x256xf32>)
  return %norm, %norm, %new, %m1, %v1 : tensor<f32>, tensor<f32>, tensor<256x256xf32>, tensor<256x256xf32>, tensor<256x256xf32>
}
