// RUN: sheaf-opt %s --nn-apply-precision=recipe=fp8-block | FileCheck %s --check-prefixes=CHECK,BLOCK
// RUN: sheaf-opt %s --nn-apply-precision=recipe=fp8-tensor | FileCheck %s --check-prefixes=CHECK,TENSOR
// RUN: sheaf-opt %s --nn-apply-precision=recipe=mxfp8 | FileCheck %s --check-prefixes=CHECK,MICRO
// RUN: sheaf-opt %s "--nn-apply-precision=recipe=fp8-block once=true" | FileCheck %s --check-prefix=ONCE
// RUN: sheaf-opt %s "--nn-apply-precision=recipe=fp8-delayed history=2" | FileCheck %s --check-prefix=DELAYED

// A letter that is summed is cut alike in both operands, from the innermost dimension on; a matrix of
// the model in both directions where blocks are square.
// CHECK-LABEL: func.func private @layer_forward
// BLOCK: nn.quantize %arg0 to f8E4M3FN blocks [1, 128] scale power_of_two
// BLOCK: nn.quantize %{{.*}} to f8E4M3FN blocks [2, 0, 128] scale power_of_two {{.*}}: (tensor<4x64x256xbf16>) -> (tensor<4x64x256xf8E4M3FN>, tensor<2x1x2xf32>)
// BLOCK: nn.scaled_einsum "te,hde->thd"{{.*}} -> tensor<8x4x64xbf16>
// TENSOR: nn.quantize %arg0 to f8E4M3FN blocks [0, 0] scale exact
// TENSOR: nn.quantize %{{.*}} to f8E4M3FN blocks [0, 0, 0] scale exact
// MICRO: nn.quantize %arg0 to f8E4M3FN blocks [1, 32] scale e8m0
// MICRO: nn.quantize %{{.*}} to f8E4M3FN blocks [1, 1, 32] scale e8m0
// What is not summed with a matrix stays as it is.
// CHECK: nn.einsum "thd,uhd->htu"(%{{.*}}) {nn.role = "forward"} : (tensor<8x4x64xbf16>, tensor<8x4x64xbf16>) -> tensor<4x8x8xbf16>
func.func private @layer_forward(%x: tensor<8x256xf32>, %w: tensor<256x256xf32>) -> (tensor<8x4x64xf32>, tensor<4x8x8xf32>)
    attributes {nn.forward_of = "layer", nn.layer} {
  %v = nn.reshape %w {nn.role = "forward"} : tensor<256x256xf32> -> tensor<4x64x256xf32>
  %y = nn.einsum "te,hde->thd"(%x, %v) {nn.role = "forward"} : (tensor<8x256xf32>, tensor<4x64x256xf32>) -> tensor<8x4x64xf32>
  %z = nn.einsum "thd,uhd->htu"(%y, %y) {nn.role = "forward"} : (tensor<8x4x64xf32>, tensor<8x4x64xf32>) -> tensor<4x8x8xf32>
  return %y, %z : tensor<8x4x64xf32>, tensor<4x8x8xf32>
}

// Of the two products of the backward each quantises for itself; gradients of activations are f8E5M2
// where the recipe says so, and no product has two of those.
// CHECK-LABEL: func.func private @layer_backward
// CHECK-SAME: -> (tensor<8x256xbf16>, tensor<256x256xf32>)
// BLOCK: nn.quantize %arg2 to f8E4M3FN blocks [1, 2, 0] scale
// BLOCK: nn.quantize %{{.*}} to f8E4M3FN blocks [2, 0, 128] scale
// BLOCK: nn.scaled_einsum "thd,hde->te"{{.*}} -> tensor<8x256xbf16>
// BLOCK: nn.quantize %arg2 to f8E4M3FN blocks [0, 1, 1] scale
// BLOCK: nn.quantize %arg0 to f8E4M3FN blocks [0, 1] scale
// BLOCK: nn.scaled_einsum "thd,te->hde"{{.*}} -> tensor<4x64x256xf32>
// TENSOR: nn.quantize %arg2 to f8E5M2
// TENSOR: nn.quantize %{{.*}} to f8E4M3FN
// TENSOR: nn.scaled_einsum "thd,hde->te"
// TENSOR: nn.quantize %arg2 to f8E5M2
// TENSOR: nn.quantize %arg0 to f8E4M3FN
// TENSOR: nn.scaled_einsum "thd,te->hde"
// MICRO: nn.quantize %arg2 to f8E4M3FN blocks [1, 1, 32]
// MICRO: nn.quantize %{{.*}} to f8E4M3FN blocks [1, 32, 1]
// MICRO: nn.quantize %arg2 to f8E4M3FN blocks [0, 1, 1]
func.func private @layer_backward(%x: tensor<8x256xf32>, %w: tensor<256x256xf32>, %dy: tensor<8x4x64xf32>)
    -> (tensor<8x256xf32>, tensor<256x256xf32>)
    attributes {nn.forward = "layer_forward", nn.layer, nn.operands = ["argument 0", "argument 1", "cotangent 0"],
                nn.results = ["argument 0", "argument 1"]} {
  %v = nn.reshape %w {nn.role = "forward"} : tensor<256x256xf32> -> tensor<4x64x256xf32>
  %dx = nn.einsum "thd,hde->te"(%dy, %v) {nn.role = "input_gradient"} : (tensor<8x4x64xf32>, tensor<4x64x256xf32>) -> tensor<8x256xf32>
  %dv = nn.einsum "thd,te->hde"(%dy, %x) {nn.role = "weight_gradient"} : (tensor<8x4x64xf32>, tensor<8x256xf32>) -> tensor<4x64x256xf32>
  %dw = nn.reshape %dv {nn.role = "weight_gradient"} : tensor<4x64x256xf32> -> tensor<256x256xf32>
  return %dx, %dw : tensor<8x256xf32>, tensor<256x256xf32>
}

// The head stays as it is.
// CHECK-LABEL: func.func @gradients
// CHECK: call @layer_forward
// CHECK: nn.einsum "thd,vhd->tv"(%{{.*}}) {nn.role = "forward"} : (tensor<8x4x64xbf16>, tensor<16x4x64xbf16>) -> tensor<8x16xbf16>
// CHECK: call @layer_backward
// CHECK: return %{{.*}} : tensor<8x256xf32>, tensor<256x256xf32>
func.func @gradients(%w: tensor<256x256xf32> {nn.param = #nn.param<"w", axes = [heads, embed], init = normal(0.02)>},
                     %head: tensor<16x4x64xf32> {nn.param = #nn.param<"head", axes = [vocab, heads, head_dim], init = normal(0.02)>},
                     %i: tensor<8xi32>) -> (tensor<8x256xf32>, tensor<256x256xf32> {nn.result = ["gradient", "w"]}) {
  %g = nn.gather %w[%i] axis 0 {nn.role = "forward"} : (tensor<256x256xf32>, tensor<8xi32>) -> tensor<8x256xf32>
  %y:2 = call @layer_forward(%g, %w) {nn.role = "forward"} : (tensor<8x256xf32>, tensor<256x256xf32>) -> (tensor<8x4x64xf32>, tensor<4x8x8xf32>)
  %p = nn.einsum "thd,vhd->tv"(%y#0, %head) {nn.role = "forward"} : (tensor<8x4x64xf32>, tensor<16x4x64xf32>) -> tensor<8x16xf32>
  %dy = nn.einsum "tv,vhd->thd"(%p, %head) {nn.role = "input_gradient"} : (tensor<8x16xf32>, tensor<16x4x64xf32>) -> tensor<8x4x64xf32>
  %d:2 = call @layer_backward(%g, %w, %dy) {nn.role = "input_gradient"} : (tensor<8x256xf32>, tensor<256x256xf32>, tensor<8x4x64xf32>) -> (tensor<8x256xf32>, tensor<256x256xf32>)
  return %d#0, %d#1 : tensor<8x256xf32>, tensor<256x256xf32>
}

// A layer has its scales as its last argument, and what it found as its last result.
// DELAYED-LABEL: func.func private @layer_forward
// DELAYED-SAME: %[[SCALES:arg[0-9]+]]: tensor<2xf32>) -> (tensor<8x4x64xbf16>, tensor<4x8x8xbf16>, tensor<2xf32>)
// DELAYED: nn.slice %[[SCALES]] offsets [0] sizes [1]
// DELAYED: nn.mul
// DELAYED: %[[PAYLOAD:.*]] = nn.cast %{{.*}} : tensor<8x256xf32> -> tensor<8x256xf8E4M3FN>
// DELAYED: nn.reduce max
// DELAYED: nn.scaled_einsum "te,hde->thd"(%[[PAYLOAD]], %{{.*}})
// DELAYED: nn.concatenate
// DELAYED-LABEL: func.func private @layer_backward
// DELAYED-SAME: tensor<3xf32>) -> (tensor<8x256xbf16>, tensor<256x256xf32>, tensor<3xf32>)
// DELAYED: nn.cast %{{.*}} -> tensor<8x4x64xf8E5M2>
// A gradient that two products read is cast once.
// DELAYED-NOT: f8E5M2>{{$}}

// Matrices are quantised where layers are called, in front of everything, from the 16-bit value; a layer
// takes payload and factors.
// ONCE-LABEL: func.func private @layer_forward
// ONCE-SAME: %[[W:arg[0-9]+]]: tensor<256x256xbf16>, %[[PAYLOAD:arg[0-9]+]]: tensor<4x64x256xf8E4M3FN>, %[[FACTORS:arg[0-9]+]]: tensor<2x1x2xf32>)
// ONCE: nn.scaled_einsum "te,hde->thd"(%{{.*}}, %[[PAYLOAD]]) scales(%{{.*}}, %[[FACTORS]])
// ONCE-LABEL: func.func private @layer_backward
// ONCE-SAME: tensor<4x64x256xf8E4M3FN>, %{{.*}}: tensor<2x1x2xf32>) ->
// ONCE-COUNT-3: nn.quantize
// ONCE-LABEL: func.func @gradients
// ONCE: %[[VIEW:.*]] = nn.reshape %arg0 {nn.role = "forward"} : tensor<256x256xbf16> -> tensor<4x64x256xbf16>
// ONCE: %[[Q:.*]], %[[F:.*]] = nn.quantize %[[VIEW]] to f8E4M3FN blocks [2, 0, 128] scale power_of_two
// ONCE: nn.gather
// ONCE: call @layer_forward
