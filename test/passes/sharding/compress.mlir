// RUN: sheaf-opt %s --split-input-file --dist-compress | FileCheck %s --check-prefix=NOTHING
// RUN: sheaf-opt %s --split-input-file --dist-compress="gradients=bf16 weights=bf16" | FileCheck %s --check-prefix=BF16
// RUN: sheaf-opt %s --split-input-file --dist-compress="gradients=int8 weights=int8" | FileCheck %s --check-prefix=INT8
// RUN: sheaf-opt %s --split-input-file --dist-compress=gradients=fp8 | FileCheck %s --check-prefix=FP8

// A reduce-scatter: parts along dimension 1 become rows, go to their owners, and are added.
// As it is by default.
// NOTHING-LABEL: @scatter
// NOTHING-NEXT: dist.reduce_scatter sum %{{.*}} dim 1 axes ["dp"]
// NOTHING-NOT: dist.local
// BF16-LABEL: @scatter
// BF16-SAME: %[[G:.*]]: tensor<3x8xf32
// BF16-NEXT: %[[OWN:.*]] = dist.local %[[G]] {{.*}} -> tensor<3x8xf32>
// BF16-NEXT: %[[A:.*]] = nn.reshape %[[OWN]] {{.*}} -> tensor<3x2x4xf32>
// BF16-NEXT: %[[B:.*]] = nn.transpose %[[A]] [1, 0, 2]
// BF16-NEXT: %[[ROWS:.*]] = nn.reshape %[[B]] {{.*}} -> tensor<2x12xf32>
// BF16-NEXT: %[[LOW:.*]] = nn.cast %[[ROWS]] {{.*}} -> tensor<2x12xbf16>
// BF16: %[[IN:.*]] = dist.all_to_all %{{.*}} split 2 concat 0 axes ["dp"] {dist.reason = {kind = "strategy", params = ["w"], text = "a sum; sent as bf16, rounded: off by at most 1/256 of each number"}, nn.role = "weight_gradient"} : (tensor<1x1x2x1x12xbf16>) -> tensor<2x1x1x1x12xbf16>
// BF16: nn.cast %{{.*}} : tensor<2x1x12xbf16> -> tensor<2x1x12xf32>
// BF16: nn.reduce sum %{{.*}} dims [0] {nn.role = "weight_gradient"} : (tensor<2x12xf32>) -> tensor<12xf32>
// BF16: %[[Y:.*]] = nn.reshape {{.*}} -> tensor<3x4xf32>
// BF16-NEXT: return %[[Y]]
// BF16-NOT: dist.reduce_scatter
// INT8-LABEL: @scatter
// INT8: nn.reduce max %{{.*}} dims [2] keep {{.*}}: (tensor<2x1x12xf32>) -> tensor<2x1x1xf32>
// INT8: nn.cast %{{.*}} : tensor<2x1x12xf32> -> tensor<2x1x12xi8>
// INT8: dist.all_to_all {{.*}}a sum; sent as int8, quantised in blocks of 12: off by at most 1/254 of the largest of a block{{.*}} : (tensor<1x1x2x1x12xi8>) -> tensor<2x1x1x1x12xi8>
// INT8: dist.all_to_all {{.*}}a sum; the factors of its blocks{{.*}} : (tensor<1x1x2x1x1xf32>) -> tensor<2x1x1x1x1xf32>
// FP8-LABEL: @scatter
// FP8: nn.cast %{{.*}} : tensor<2x1x12xf32> -> tensor<2x1x12xf8E4M3FN>
// FP8: dist.all_to_all {{.*}}sent as fp8, quantised in blocks of 12: off by at most 1/16 of each number{{.*}} : (tensor<1x1x2x1x12xf8E4M3FN>)
dist.mesh @mesh ["dp" = 2]
func.func @scatter(%g: tensor<3x8xf32, #dist.partial<["dp"], sum>>) -> tensor<3x4xf32> {
  %y = dist.reduce_scatter sum %g dim 1 axes ["dp"] {dist.reason = {kind = "strategy", text = "a sum", params = ["w"]}, nn.role = "weight_gradient"}
    : (tensor<3x8xf32, #dist.partial<["dp"], sum>>) -> tensor<3x4xf32>
  return %y : tensor<3x4xf32>
}

// -----

// An all-reduce of what does not divide, in two blocks, over two axes: what is added is rounded
// again and gathered. Over tp it is still to be summed.
// BF16-LABEL: @reduce
// BF16: dist.all_to_all {{.*}}(tensor<1x1x4x1x75xbf16>)
// BF16: dist.all_gather {{.*}}the sum, sent as bf16{{.*}}(tensor<1x1x75xbf16>) -> tensor<4x1x75xbf16>
// BF16: nn.slice %{{.*}} offsets [0] sizes [297]
// INT8-LABEL: @reduce
// INT8-SAME: %[[G:.*]]: tensor<297xf32
// INT8-NEXT: %[[OWN:.*]] = dist.local %[[G]] {{.*}}: (tensor<297xf32, #dist.partial<["dp", "cp", "tp"], sum>>) -> tensor<297xf32>
// INT8: %[[PAD:.*]] = nn.pad {{.*}} -> tensor<300xf32>
// INT8: nn.reshape %[[PAD]] {{.*}}: tensor<300xf32> -> tensor<4x75xf32>
// INT8: dist.all_to_all {{.*}}axes ["dp", "cp"]{{.*}}(tensor<1x1x4x1x75xi8>) -> tensor<4x1x1x1x75xi8>
// INT8: nn.reduce sum %{{.*}} dims [0] {{.*}}(tensor<4x75xf32>) -> tensor<75xf32>
// INT8: dist.all_gather %{{.*}} dim 0 axes ["dp", "cp"] {{.*}}the sum, sent as int8{{.*}}(tensor<1x1x75xi8>) -> tensor<4x1x75xi8>
// INT8: dist.all_gather {{.*}}the factors of its blocks{{.*}}(tensor<1x1x1xf32>) -> tensor<4x1x1xf32>
// INT8: %[[Y:.*]] = dist.local %{{.*}} {{.*}}: (tensor<297xf32>) -> tensor<297xf32, #dist.partial<["tp"], sum>>
// INT8-NEXT: return %[[Y]]
dist.mesh @mesh ["dp" = 2, "cp" = 2, "tp" = 2]
func.func private @reduce(%g: tensor<297xf32, #dist.partial<["dp", "cp", "tp"], sum>>) -> tensor<297xf32, #dist.partial<["tp"], sum>> {
  %y = dist.all_reduce sum %g axes ["dp", "cp"] {nn.role = "weight_gradient"}
    : (tensor<297xf32, #dist.partial<["dp", "cp", "tp"], sum>>) -> tensor<297xf32, #dist.partial<["tp"], sum>>
  return %y : tensor<297xf32, #dist.partial<["tp"], sum>>
}

// -----

// Equal blocks of at most 128.
// INT8-LABEL: @blocks
// INT8: nn.pad {{.*}} -> tensor<2x261xf32>
// INT8: nn.cast {{.*}} -> tensor<2x3x87xi8>
// INT8: quantised in blocks of 87
dist.mesh @mesh ["dp" = 2]
func.func @blocks(%g: tensor<520xf32, #dist.partial<["dp"], sum>>) -> tensor<260xf32> {
  %y = dist.reduce_scatter sum %g dim 0 axes ["dp"] {nn.role = "weight_gradient"}
    : (tensor<520xf32, #dist.partial<["dp"], sum>>) -> tensor<260xf32>
  return %y : tensor<260xf32>
}

// -----

// A gather of a weight, through the call of a layer; what an op makes of it is no weight.
// BF16-LABEL: @layer
// BF16: dist.all_gather {{.*}}sent as bf16{{.*}} : (tensor<1x1x12xbf16>) -> tensor<2x1x12xbf16>
// BF16: nn.transpose %{{.*}} [1, 0, 2] {{.*}} -> tensor<4x2x3xf32>
// BF16: nn.reshape %{{.*}} -> tensor<4x6xf32>
// BF16-LABEL: @loss
// BF16: dist.all_gather %{{.*}} : (tensor<4x3xf32>) -> tensor<4x6xf32>
// FP8-LABEL: @layer
// FP8-NEXT: dist.all_gather %{{.*}} : (tensor<4x3xf32>)
dist.mesh @mesh ["dp" = 2]
func.func private @layer(%w: tensor<4x3xf32>) -> tensor<4x6xf32> {
  %a = dist.all_gather %w dim 1 axes ["dp"] : (tensor<4x3xf32>) -> tensor<4x6xf32>
  return %a : tensor<4x6xf32>
}
func.func @loss(%w: tensor<4x3xf32> {nn.param = #nn.param<"w", axes = [_, _], init = constant(0)>}) -> (tensor<4x6xf32>, tensor<4x6xf32>) {
  %a = func.call @layer(%w) : (tensor<4x3xf32>) -> tensor<4x6xf32>
  %n = nn.neg %w : tensor<4x3xf32>
  %b = dist.all_gather %n dim 1 axes ["dp"] : (tensor<4x3xf32>) -> tensor<4x6xf32>
  return %a, %b : tensor<4x6xf32>, tensor<4x6xf32>
}

// -----

// Weights that are whole: the change is sent, and added to what all have.
// BF16-LABEL: @update
// BF16-SAME: %[[W:.*]]: tensor<8xf32>
// BF16: %[[OLD:.*]] = dist.slice %[[W]]
// BF16: %[[NEW:.*]], %{{.*}} = nn.sgd %[[OLD]]
// BF16-NEXT: %[[CHANGE:.*]] = nn.sub %[[NEW]], %[[OLD]]
// BF16: dist.all_gather {{.*}}the change of the weights, sent as bf16{{.*}}(tensor<1x1x4xbf16>)
// BF16: %[[ALL:.*]] = nn.reshape {{.*}} -> tensor<8xf32>
// BF16-NEXT: %[[SUM:.*]] = nn.add %[[W]], %[[ALL]]
// BF16-NEXT: return %[[SUM]]
dist.mesh @mesh ["dp" = 2]
func.func @update(%w: tensor<8xf32> {nn.param = #nn.param<"w", axes = [_], init = constant(0)>}, %g: tensor<4xf32>, %m: tensor<4xf32>, %s: tensor<f32>)
    -> (tensor<8xf32> {nn.result = ["parameter", "w"]}) {
  %old = dist.slice %w dim 0 axes ["dp"] : (tensor<8xf32>) -> tensor<4xf32>
  %new, %buffer = nn.sgd %old, %g, %m lr %s momentum %s decay %s grad_scale %s {nn.role = "optimizer"}
    : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>)
  %y = dist.all_gather %new dim 0 axes ["dp"] {nn.role = "optimizer"} : (tensor<4xf32>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

// Of masters the weights have what is rounded: the change is from what all have, which holds what
// was left out before. In bf16 it would be as many bytes.
// INT8-LABEL: @narrow
// INT8-SAME: (%[[W:.*]]: tensor<512xbf16>
// INT8: %[[NEW:.*]], %{{.*}} = nn.sgd
// INT8: %[[ROUNDED:.*]] = nn.cast %[[NEW]] {{.*}} -> tensor<256xbf16>
// INT8-DAG: %[[THEN:.*]] = nn.cast %[[ROUNDED]] {{.*}} -> tensor<256xf32>
// INT8-DAG: %[[OLD:.*]] = dist.slice %[[W]] dim 0 axes ["dp"] {{.*}} -> tensor<256xbf16>
// INT8: %[[BEFORE:.*]] = nn.cast %[[OLD]]
// INT8: nn.sub %[[THEN]], %[[BEFORE]]
// INT8: dist.all_gather {{.*}}the change of the weights, sent as int8{{.*}}(tensor<1x2x128xi8>)
// INT8: %[[WIDE:.*]] = nn.cast %[[W]]
// INT8: %[[SUM:.*]] = nn.add %[[WIDE]]
// INT8: %[[Y:.*]] = nn.cast %[[SUM]] {{.*}} -> tensor<512xbf16>
// INT8: return %[[Y]]
// BF16-LABEL: @narrow
// BF16: dist.all_gather %{{.*}} (tensor<256xbf16>) -> tensor<512xbf16>
dist.mesh @mesh ["dp" = 2]
func.func @narrow(%w: tensor<512xbf16> {nn.param = #nn.param<"w", axes = [_], init = constant(0)>}, %m: tensor<256xf32> {nn.state = ["master", "w"]},
    %g: tensor<256xf32>, %v: tensor<256xf32>, %s: tensor<f32>)
    -> (tensor<512xbf16> {nn.result = ["parameter", "w"]}, tensor<256xf32> {nn.result = ["master", "w"]}) {
  %new, %buffer = nn.sgd %m, %g, %v lr %s momentum %s decay %s grad_scale %s {nn.role = "optimizer"}
    : (tensor<256xf32>, tensor<256xf32>, tensor<256xf32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<256xf32>, tensor<256xf32>)
  %n = nn.cast %new {nn.role = "optimizer"} : tensor<256xf32> -> tensor<256xbf16>
  %y = dist.all_gather %n dim 0 axes ["dp"] {nn.role = "optimizer"} : (tensor<256xbf16>) -> tensor<512xbf16>
  return %y, %new : tensor<512xbf16>, tensor<256xf32>
}

// -----

// What stays: a scalar, a sum over devices that have the same samples, one of activations, a
// maximum, the loads of experts, and what would be as many bytes.
// INT8-LABEL: @stays
// INT8-NOT: dist.local
// INT8-LABEL: @one
// INT8-NOT: dist.local
// INT8: return
dist.mesh @mesh ["dp" = 2, "tp" = 2]
func.func @stays(%x: tensor<4x4xi32> {dist.sharding = #dist.sharding<[{"dp"}, {}]>, nn.batch = "tokens"}, %a: tensor<f32, #dist.partial<["dp"], sum>>, %b: tensor<64xf32, #dist.partial<["tp"], sum>>,
    %c: tensor<64xf32, #dist.partial<["dp"], sum>>, %d: tensor<64xf32, #dist.partial<["dp"], max>>, %e: tensor<64xf32, #dist.partial<["dp"], sum>>)
    -> (tensor<f32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32> {nn.result = ["result", "load:w"]}) {
  %0 = dist.all_reduce sum %a axes ["dp"] {nn.role = "weight_gradient"} : (tensor<f32, #dist.partial<["dp"], sum>>) -> tensor<f32>
  %1 = dist.all_reduce sum %b axes ["tp"] {nn.role = "weight_gradient"} : (tensor<64xf32, #dist.partial<["tp"], sum>>) -> tensor<64xf32>
  %2 = dist.all_reduce sum %c axes ["dp"] {nn.role = "input_gradient"} : (tensor<64xf32, #dist.partial<["dp"], sum>>) -> tensor<64xf32>
  %3 = dist.all_reduce max %d axes ["dp"] {nn.role = "weight_gradient"} : (tensor<64xf32, #dist.partial<["dp"], max>>) -> tensor<64xf32>
  %4 = dist.all_reduce sum %e axes ["dp"] {nn.role = "weight_gradient"} : (tensor<64xf32, #dist.partial<["dp"], sum>>) -> tensor<64xf32>
  return %0, %1, %2, %3, %4 : tensor<f32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>
}
func.func @one(%g: tensor<2xf32, #dist.partial<["dp"], sum>>) -> tensor<1xf32> {
  %y = dist.reduce_scatter sum %g dim 0 axes ["dp"] {nn.role = "weight_gradient"} : (tensor<2xf32, #dist.partial<["dp"], sum>>) -> tensor<1xf32>
  return %y : tensor<1xf32>
}
