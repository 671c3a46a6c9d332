// RUN: sheaf-opt %s --dist-optimize --dist-verify | FileCheck %s
// RUN: sheaf-opt %s --dist-optimize=bucket-bytes=96 --dist-verify | FileCheck %s --check-prefix=BUCKET
// RUN: sheaf-opt %s --dist-optimize=bucket-bytes=auto --dist-verify | FileCheck %s --check-prefix=AUTO
// RUN: not sheaf-opt %s --dist-optimize=bucket-bytes=1k 2>&1 | FileCheck %s --check-prefix=WRONG
// RUN: %python %S/optimize.py %sheaf_bin/sheaf-opt %s | FileCheck %s --check-prefix=SENT
// WRONG: dist-optimize: option 'bucket-bytes' is '1k', expected a number of bytes, or auto

dist.mesh @mesh ["dp" = 2, "tp" = 4]

// A gather goes behind a narrowing cast, a reshape between them included.
// CHECK-LABEL: func.func @narrow
// CHECK-NEXT: nn.cast %arg0 : tensor<4x8xf32> -> tensor<4x8xbf16>
// CHECK-NEXT: dist.all_gather {{.*}} dim 0 axes ["dp"] {dist.reason = {kind = "annotation", text = "for use; sent as bf16, cast before"}}
// CHECK-NEXT: nn.reshape
// CHECK-NEXT: return
// SENT: narrow: 256 bytes, then 128
func.func @narrow(%x: tensor<4x8xf32>) -> tensor<64xbf16> {
  %g = dist.all_gather %x dim 0 axes ["dp"] {dist.reason = {kind = "annotation", text = "for use"}} : (tensor<4x8xf32>) -> tensor<8x8xf32>
  %r = nn.reshape %g : tensor<8x8xf32> -> tensor<64xf32>
  %y = nn.cast %r : tensor<64xf32> -> tensor<64xbf16>
  return %y : tensor<64xbf16>
}

// Two casts to one type count as one.
// CHECK-LABEL: func.func @narrow_twice
// CHECK-COUNT-1: nn.cast
// CHECK-NOT: nn.cast
// CHECK: dist.all_to_all {{.*}} tensor<2x8xbf16>
// CHECK: return
// SENT: narrow_twice: 64 bytes, then 32
func.func @narrow_twice(%x: tensor<4x4xf32>) -> (tensor<2x8xbf16>, tensor<2x8xbf16>) {
  %g = dist.all_to_all %x split 0 concat 1 axes ["dp"] : (tensor<4x4xf32>) -> tensor<2x8xf32>
  %y = nn.cast %g : tensor<2x8xf32> -> tensor<2x8xbf16>
  %z = nn.cast %g : tensor<2x8xf32> -> tensor<2x8xbf16>
  return %y, %z : tensor<2x8xbf16>, tensor<2x8xbf16>
}

// What something else reads in full stays.
// CHECK-LABEL: func.func @wide_use
// CHECK-NEXT: dist.all_gather %arg0 {{.*}} -> tensor<8x8xf32>
// CHECK-NEXT: nn.cast
// SENT: wide_use: 256 bytes, then 256
func.func @wide_use(%x: tensor<4x8xf32>) -> (tensor<8x8xbf16>, tensor<8x8xf32>) {
  %g = dist.all_gather %x dim 0 axes ["dp"] : (tensor<4x8xf32>) -> tensor<8x8xf32>
  %y = nn.cast %g : tensor<8x8xf32> -> tensor<8x8xbf16>
  return %y, %g : tensor<8x8xbf16>, tensor<8x8xf32>
}

// A gather goes before a widening cast.
// CHECK-LABEL: func.func @widen
// CHECK-NEXT: nn.reshape %arg0
// CHECK-NEXT: dist.all_gather {{.*}}sent as bf16, cast behind{{.*}} -> tensor<16x4xbf16>
// CHECK-NEXT: nn.cast {{.*}} -> tensor<16x4xf32>
// CHECK-NEXT: return
// SENT: widen: 256 bytes, then 128
func.func @widen(%x: tensor<4x8xbf16>) -> tensor<16x4xf32> {
  %w = nn.cast %x : tensor<4x8xbf16> -> tensor<4x8xf32>
  %r = nn.reshape %w : tensor<4x8xf32> -> tensor<8x4xf32>
  %g = dist.all_gather %r dim 0 axes ["dp"] {dist.reason = {kind = "annotation", text = "for use"}} : (tensor<8x4xf32>) -> tensor<16x4xf32>
  return %g : tensor<16x4xf32>
}

// A sum is not exact in a narrow type: it stays in the wide one.
// CHECK-LABEL: func.func private @sum
// CHECK-NEXT: dist.all_reduce sum %arg0
// CHECK-NEXT: nn.cast
// SENT: sum: 128 bytes, then 128
func.func private @sum(%x: tensor<4x8xf32, #dist.partial<["dp"], sum>>) -> tensor<4x8xbf16> {
  %s = dist.all_reduce sum %x axes ["dp"] : (tensor<4x8xf32, #dist.partial<["dp"], sum>>) -> tensor<4x8xf32>
  %y = nn.cast %s : tensor<4x8xf32> -> tensor<4x8xbf16>
  return %y : tensor<4x8xbf16>
}

// A gather of a shard and a slice of the same shard: nothing is left.
// CHECK-LABEL: func.func @same_shard
// CHECK-NEXT: return %arg0
// SENT: same_shard: 256 bytes, then 0
func.func @same_shard(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %g = dist.all_gather %x dim 0 axes ["dp"] : (tensor<4x8xf32>) -> tensor<8x8xf32>
  %y = dist.slice %g dim 0 axes ["dp"] : (tensor<8x8xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// Of the axes the outer one is cut again: only the inner one is gathered. A sub-axis is
// a part of its axis.
// CHECK-LABEL: func.func @outer_shard
// CHECK-NEXT: dist.all_gather %arg0 dim 0 axes ["tp"] : (tensor<2x8xf32>) -> tensor<8x8xf32>
// CHECK-NEXT: dist.all_gather %arg1 dim 0 axes ["tp":(2)2] : (tensor<2x8xf32>) -> tensor<4x8xf32>
// CHECK-NEXT: return
// SENT: outer_shard: 768 bytes, then 384
func.func @outer_shard(%x: tensor<2x8xf32>, %u: tensor<2x8xf32>) -> (tensor<8x8xf32>, tensor<4x8xf32>) {
  %g = dist.all_gather %x dim 0 axes ["dp", "tp"] : (tensor<2x8xf32>) -> tensor<16x8xf32>
  %y = dist.slice %g dim 0 axes ["dp"] : (tensor<16x8xf32>) -> tensor<8x8xf32>
  %h = dist.all_gather %u dim 0 axes ["tp"] : (tensor<2x8xf32>) -> tensor<8x8xf32>
  %z = dist.slice %h dim 0 axes ["tp":(1)2] : (tensor<8x8xf32>) -> tensor<4x8xf32>
  return %y, %z : tensor<8x8xf32>, tensor<4x8xf32>
}

// Another use of the gather leaves nothing to win.
// CHECK-LABEL: func.func @gathered_anyway
// CHECK-COUNT-1: dist.all_gather
// CHECK: dist.slice
// SENT: gathered_anyway: 256 bytes, then 256
func.func @gathered_anyway(%x: tensor<2x8xf32>) -> (tensor<8x8xf32>, tensor<4x8xf32>) {
  %h = dist.all_gather %x dim 0 axes ["tp"] : (tensor<2x8xf32>) -> tensor<8x8xf32>
  %z = dist.slice %h dim 0 axes ["tp":(1)2] : (tensor<8x8xf32>) -> tensor<4x8xf32>
  return %h, %z : tensor<8x8xf32>, tensor<4x8xf32>
}

// Other shards are needed: that stays.
// CHECK-LABEL: func.func @other_shard
// CHECK-NEXT: dist.all_gather
// CHECK-NEXT: dist.slice
// SENT: other_shard: 256 bytes, then 256
func.func @other_shard(%x: tensor<2x8xf32>) -> tensor<4x8xf32> {
  %g = dist.all_gather %x dim 0 axes ["tp"] : (tensor<2x8xf32>) -> tensor<8x8xf32>
  %y = dist.slice %g dim 0 axes ["dp"] : (tensor<8x8xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// 7 rows on 2: a slice has zeros behind the end, a shard may have anything there.
// CHECK-LABEL: func.func @padded_shard
// CHECK: dist.all_gather %arg0 dim 0 axes ["dp"]
// CHECK-NEXT: dist.slice
// CHECK-NEXT: dist.all_gather %arg1 dim 0 axes ["dp", "tp"]
// CHECK-NEXT: dist.slice
// SENT: padded_shard: 448 bytes, then 448
func.func @padded_shard(%x: tensor<4x8xf32>, %z: tensor<1x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %g = dist.all_gather %x dim 0 axes ["dp"] : (tensor<4x8xf32>) -> tensor<7x8xf32>
  %y = dist.slice %g dim 0 axes ["dp"] : (tensor<7x8xf32>) -> tensor<4x8xf32>
  %h = dist.all_gather %z dim 0 axes ["dp", "tp"] : (tensor<1x8xf32>) -> tensor<7x8xf32>
  %w = dist.slice %h dim 0 axes ["dp"] : (tensor<7x8xf32>) -> tensor<4x8xf32>
  return %y, %w : tensor<4x8xf32>, tensor<4x8xf32>
}

// What is cut along another dimension is cut before it is sent.
// CHECK-LABEL: func.func @other_dim
// CHECK-NEXT: dist.slice %arg0 dim 1 axes ["tp"] : (tensor<4x8xf32>) -> tensor<4x2xf32>
// CHECK-NEXT: dist.all_gather {{.*}} -> tensor<8x2xf32>
// SENT: other_dim: 256 bytes, then 64
func.func @other_dim(%x: tensor<4x8xf32>) -> tensor<8x2xf32> {
  %g = dist.all_gather %x dim 0 axes ["dp"] : (tensor<4x8xf32>) -> tensor<8x8xf32>
  %y = dist.slice %g dim 1 axes ["tp"] : (tensor<8x8xf32>) -> tensor<8x2xf32>
  return %y : tensor<8x2xf32>
}

// Of two planes one is used: one is gathered. Behind a reshape, too.
// CHECK-LABEL: func.func @plane
// CHECK-NEXT: nn.slice %arg0 offsets [1, 0, 0] sizes [1, 4, 8]
// CHECK-NEXT: dist.all_gather {{.*}} -> tensor<1x8x8xf32>
// CHECK-NEXT: nn.reshape %arg0 : tensor<2x4x8xf32> -> tensor<2x4x2x4xf32>
// CHECK-NEXT: nn.slice {{.*}} sizes [2, 4, 1, 4] :
// CHECK-NEXT: dist.all_gather {{.*}} dim 1 axes ["dp"] {again} : (tensor<2x4x1x4xf32>) -> tensor<2x8x1x4xf32>
// CHECK-NEXT: return
// SENT: plane: 1024 bytes, then 512
func.func @plane(%x: tensor<2x4x8xf32>) -> (tensor<1x8x8xf32>, tensor<2x8x1x4xf32>) {
  %g = dist.all_gather %x dim 1 axes ["dp"] : (tensor<2x4x8xf32>) -> tensor<2x8x8xf32>
  %y = nn.slice %g offsets [1, 0, 0] sizes [1, 8, 8] : (tensor<2x8x8xf32>) -> tensor<1x8x8xf32>
  %h = dist.all_gather %x dim 1 axes ["dp"] {again} : (tensor<2x4x8xf32>) -> tensor<2x8x8xf32>
  %r = nn.reshape %h : tensor<2x8x8xf32> -> tensor<2x8x2x4xf32>
  %z = nn.slice %r offsets [0, 0, 1, 0] sizes [2, 8, 1, 4] : (tensor<2x8x2x4xf32>) -> tensor<2x8x1x4xf32>
  return %y, %z : tensor<1x8x8xf32>, tensor<2x8x1x4xf32>
}

// Both planes are used, or shards are not whole: nothing changes.
// CHECK-LABEL: func.func @planes
// CHECK-NEXT: dist.all_gather %arg0 dim 1
// CHECK-NEXT: nn.slice
// CHECK-NEXT: nn.slice
// CHECK-NEXT: dist.all_gather %arg0 dim 2
// CHECK-NEXT: nn.slice
// SENT: planes: 1024 bytes, then 1024
func.func @planes(%x: tensor<2x4x8xf32>) -> (tensor<1x8x8xf32>, tensor<1x8x8xf32>, tensor<2x4x4xf32>) {
  %g = dist.all_gather %x dim 1 axes ["dp"] : (tensor<2x4x8xf32>) -> tensor<2x8x8xf32>
  %y = nn.slice %g offsets [1, 0, 0] sizes [1, 8, 8] : (tensor<2x8x8xf32>) -> tensor<1x8x8xf32>
  %z = nn.slice %g offsets [0, 0, 0] sizes [1, 8, 8] : (tensor<2x8x8xf32>) -> tensor<1x8x8xf32>
  %h = dist.all_gather %x dim 2 axes ["dp"] : (tensor<2x4x8xf32>) -> tensor<2x4x16xf32>
  %w = nn.slice %h offsets [0, 0, 6] sizes [2, 4, 4] : (tensor<2x4x16xf32>) -> tensor<2x4x4xf32>
  return %y, %z, %w : tensor<1x8x8xf32>, tensor<1x8x8xf32>, tensor<2x4x4xf32>
}

// What lies in the shard of one device is sent by that one.
// CHECK-LABEL: func.func @one_shard
// CHECK-NEXT: nn.slice %arg0 offsets [1, 0] sizes [2, 8]
// CHECK-NEXT: dist.broadcast {{.*}} from 1 axes ["dp"] : tensor<2x8xf32>
// CHECK-NEXT: return
// SENT: one_shard: 256 bytes, then 64
func.func @one_shard(%x: tensor<4x8xf32>) -> tensor<2x8xf32> {
  %g = dist.all_gather %x dim 0 axes ["dp"] : (tensor<4x8xf32>) -> tensor<8x8xf32>
  %y = nn.slice %g offsets [5, 0] sizes [2, 8] : (tensor<8x8xf32>) -> tensor<2x8xf32>
  return %y : tensor<2x8xf32>
}

// Where all of it is used, each part from one device, one gather starts less often and
// sends no more.
// CHECK-LABEL: func.func @all_shards
// CHECK-NEXT: dist.all_gather %arg0
// CHECK-COUNT-4: nn.slice
// CHECK-NEXT: return
// SENT: all_shards: 256 bytes, then 256, in 1 and 1
func.func @all_shards(%x: tensor<4x8xf32>) -> (tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x8xf32>) {
  %g = dist.all_gather %x dim 0 axes ["dp"] : (tensor<4x8xf32>) -> tensor<8x8xf32>
  %a = nn.slice %g offsets [0, 0] sizes [2, 8] : (tensor<8x8xf32>) -> tensor<2x8xf32>
  %b = nn.slice %g offsets [2, 0] sizes [2, 8] : (tensor<8x8xf32>) -> tensor<2x8xf32>
  %c = nn.slice %g offsets [4, 0] sizes [2, 8] : (tensor<8x8xf32>) -> tensor<2x8xf32>
  %d = nn.slice %g offsets [6, 0] sizes [2, 8] : (tensor<8x8xf32>) -> tensor<2x8xf32>
  return %a, %b, %c, %d : tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x8xf32>
}

// A whole shard of 2 takes as many bytes as the gather; one of 4 fewer.
// CHECK-LABEL: func.func @whole_shard
// CHECK-NEXT: dist.all_gather %arg0
// CHECK-NEXT: nn.slice
// CHECK-NEXT: nn.slice %arg1
// CHECK-NEXT: dist.broadcast {{.*}} from 2 axes ["tp"]
// CHECK-NEXT: return
// SENT: whole_shard: 768 bytes, then 384
func.func @whole_shard(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %g = dist.all_gather %x dim 0 axes ["dp"] : (tensor<4x8xf32>) -> tensor<8x8xf32>
  %a = nn.slice %g offsets [4, 0] sizes [4, 8] : (tensor<8x8xf32>) -> tensor<4x8xf32>
  %h = dist.all_gather %y dim 0 axes ["tp"] : (tensor<4x8xf32>) -> tensor<16x8xf32>
  %b = nn.slice %h offsets [8, 0] sizes [4, 8] : (tensor<16x8xf32>) -> tensor<4x8xf32>
  return %a, %b : tensor<4x8xf32>, tensor<4x8xf32>
}

// Equal gathers of one phase are one; the backward gathers again.
// CHECK-LABEL: func.func @tied
// CHECK-COUNT-2: dist.all_gather
// CHECK-NOT: dist.all_gather
// CHECK: return
// CHECK-LABEL: func.func @shared
// CHECK-NEXT: dist.all_gather {{.*}}annotations = ["table", "of both", "head"], text = "embedding; shared by 2 uses"
// CHECK-NEXT: return
// SENT: tied: 768 bytes, then 512
func.func @tied(%x: tensor<4x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) {
  %f = dist.all_gather %x dim 0 axes ["dp"] {nn.role = "forward"} : (tensor<4x8xf32>) -> tensor<8x8xf32>
  %g = dist.all_gather %x dim 0 axes ["dp"] {nn.role = "forward"} : (tensor<4x8xf32>) -> tensor<8x8xf32>
  %h = dist.all_gather %x dim 0 axes ["dp"] {nn.role = "input_gradient"} : (tensor<4x8xf32>) -> tensor<8x8xf32>
  return %f, %g, %h : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
}
func.func @shared(%x: tensor<4x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  %f = dist.all_gather %x dim 0 axes ["dp"] {dist.reason = {annotations = ["table", "of both"], text = "embedding"}} : (tensor<4x8xf32>) -> tensor<8x8xf32>
  %g = dist.all_gather %x dim 0 axes ["dp"] {dist.reason = {annotations = ["head", "of both"], text = "head"}} : (tensor<4x8xf32>) -> tensor<8x8xf32>
  return %f, %g : tensor<8x8xf32>, tensor<8x8xf32>
}

// Reductions of gradients in flat tensors of at most 96 bytes; one that is larger, over
// other axes, a maximum, or no gradient, is alone. What reads a result waits, unless it
// is another reduction.
// CHECK-LABEL: func.func private @buckets
// CHECK-COUNT-7: dist.all_reduce
// BUCKET-LABEL: func.func private @buckets
// BUCKET: dist.all_reduce sum %arg2 axes ["dp"]
// BUCKET-NEXT: dist.all_reduce sum %arg3 axes ["tp"]
// BUCKET: nn.concatenate %{{.*}}, %{{.*}} dim 0 {nn.role = "weight_gradient"} : (tensor<8xf32, #dist.partial<["dp"], sum>>, tensor<12xf32, #dist.partial<["dp"], sum>>) -> tensor<20xf32, #dist.partial<["dp"], sum>>
// BUCKET-NEXT: dist.all_reduce sum {{.*}} axes ["dp"] {dist.reason = {text = "a sum; a bucket of 2 gradients"}, nn.role = "weight_gradient"}
// BUCKET: nn.exp
// BUCKET: nn.sub
// BUCKET-NEXT: dist.make_partial
// BUCKET-NEXT: dist.all_reduce sum
// BUCKET-NEXT: dist.all_reduce sum
// BUCKET-NEXT: dist.all_reduce max
// BUCKET: return
// AUTO-LABEL: func.func private @buckets
// AUTO-NOT: %arg2 axes
// AUTO: nn.concatenate {{.*}} -> tensor<50xf32, #dist.partial<["dp"], sum>>
// SENT: buckets: 292 bytes, then 292, in 7 and 6
func.func private @buckets(%a: tensor<8xf32, #dist.partial<["dp"], sum>>, %b: tensor<3x4xf32, #dist.partial<["dp"], sum>>,
                   %c: tensor<30xf32, #dist.partial<["dp"], sum>>, %d: tensor<4xf32, #dist.partial<["tp"], sum>>,
                   %e: tensor<3xf32, #dist.partial<["dp"], max>>)
    -> (tensor<8xf32>, tensor<8xf32>, tensor<3x4xf32>, tensor<30xf32>, tensor<4xf32>, tensor<8xf32>, tensor<3xf32>, tensor<8xf32>) {
  %1 = dist.all_reduce sum %a axes ["dp"] {nn.role = "weight_gradient", dist.reason = {text = "a sum"}} : (tensor<8xf32, #dist.partial<["dp"], sum>>) -> tensor<8xf32>
  %2 = nn.exp %1 : tensor<8xf32>
  %3 = dist.all_reduce sum %c axes ["dp"] {nn.role = "weight_gradient"} : (tensor<30xf32, #dist.partial<["dp"], sum>>) -> tensor<30xf32>
  %4 = dist.all_reduce sum %d axes ["tp"] {nn.role = "weight_gradient"} : (tensor<4xf32, #dist.partial<["tp"], sum>>) -> tensor<4xf32>
  %5 = dist.all_reduce sum %b axes ["dp"] {nn.role = "weight_gradient"} : (tensor<3x4xf32, #dist.partial<["dp"], sum>>) -> tensor<3x4xf32>
  %6 = nn.sub %2, %1 : tensor<8xf32>
  %7 = dist.make_partial sum %6 axes ["dp"] {nn.role = "weight_gradient"} : (tensor<8xf32>) -> tensor<8xf32, #dist.partial<["dp"], sum>>
  %8 = dist.all_reduce sum %7 axes ["dp"] {nn.role = "weight_gradient"} : (tensor<8xf32, #dist.partial<["dp"], sum>>) -> tensor<8xf32>
  %9 = dist.all_reduce sum %a axes ["dp"] {nn.role = "forward"} : (tensor<8xf32, #dist.partial<["dp"], sum>>) -> tensor<8xf32>
  %10 = dist.all_reduce max %e axes ["dp"] {nn.role = "weight_gradient"} : (tensor<3xf32, #dist.partial<["dp"], max>>) -> tensor<3xf32>
  return %1, %2, %5, %3, %4, %8, %10, %9 : tensor<8xf32>, tensor<8xf32>, tensor<3x4xf32>, tensor<30xf32>, tensor<4xf32>, tensor<8xf32>, tensor<3xf32>, tensor<8xf32>
}

// Parts of all lie one after another: each device's of every gradient. In the loop, too.
// CHECK-LABEL: func.func private @scatters
// BUCKET-LABEL: func.func private @scatters
// BUCKET: nn.microbatches
// BUCKET: nn.concatenate {{.*}} dim 1 {{.*}} -> tensor<2x10xf32
// BUCKET-NEXT: dist.reduce_scatter sum {{.*}} dim 0 axes ["dp"] {{.*}} -> tensor<1x10xf32>
// BUCKET-NOT: dist.reduce_scatter
// BUCKET: nn.yield
// SENT: scatters: 64 bytes, then 64, in 2 and 1
func.func private @scatters(%a: tensor<4xf32, #dist.partial<["dp"], sum>>, %b: tensor<3x4xf32, #dist.partial<["dp"], sum>>,
                    %z: tensor<2xf32>, %v: tensor<2x4xf32>) -> (tensor<2xf32>, tensor<2x4xf32>) {
  %s:2 = nn.microbatches 1 inits(%z, %v : tensor<2xf32>, tensor<2x4xf32>) -> tensor<2xf32>, tensor<2x4xf32> {
  ^bb0(%k: tensor<i32>, %p: tensor<2xf32>, %q: tensor<2x4xf32>):
    %1 = dist.reduce_scatter sum %a dim 0 axes ["dp"] {nn.role = "weight_gradient"} : (tensor<4xf32, #dist.partial<["dp"], sum>>) -> tensor<2xf32>
    %2 = nn.add %p, %1 {nn.role = "weight_gradient"} : tensor<2xf32>
    %3 = dist.reduce_scatter sum %b dim 0 axes ["dp"] {nn.role = "weight_gradient"} : (tensor<3x4xf32, #dist.partial<["dp"], sum>>) -> tensor<2x4xf32>
    %4 = nn.add %q, %3 {nn.role = "weight_gradient"} : tensor<2x4xf32>
    nn.yield %2, %4 : tensor<2xf32>, tensor<2x4xf32>
  }
  return %s#0, %s#1 : tensor<2xf32>, tensor<2x4xf32>
}

// The reason of a bucket has what asked for any of them, and the parameters.
// BUCKET-LABEL: func.func @named(
// BUCKET: dist.all_reduce {{.*}}dist.reason = {annotations = ["batch", "a", "b"], params = ["a", "b"], text = "a sum; a bucket of 2 gradients"}
// BUCKET-NOT: dist.all_reduce
// SENT: named: 32 bytes, then 32, in 2 and 1
func.func @named(%x: tensor<4xf32>, %y: tensor<4xf32>)
    -> (tensor<4xf32> {nn.result = ["gradient", "a"]}, tensor<4xf32> {nn.result = ["gradient", "b"]}) {
  %p = dist.make_partial sum %x axes ["dp"] : (tensor<4xf32>) -> tensor<4xf32, #dist.partial<["dp"], sum>>
  %q = dist.make_partial sum %y axes ["dp"] : (tensor<4xf32>) -> tensor<4xf32, #dist.partial<["dp"], sum>>
  %a = dist.all_reduce sum %p axes ["dp"] {nn.role = "weight_gradient", dist.reason = {annotations = ["batch", "a"], text = "a sum"}} : (tensor<4xf32, #dist.partial<["dp"], sum>>) -> tensor<4xf32>
  %b = dist.all_reduce sum %q axes ["dp"] {nn.role = "weight_gradient", dist.reason = {annotations = ["b", "batch"], text = "another"}} : (tensor<4xf32, #dist.partial<["dp"], sum>>) -> tensor<4xf32>
  return %a, %b : tensor<4xf32>, tensor<4xf32>
}
