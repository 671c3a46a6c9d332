// RUN: sheaf-opt %s --split-input-file --dist-propagate --dist-partition | FileCheck %s
// RUN: sheaf-opt %s --split-input-file --dist-propagate --dist-partition=reduce=early | FileCheck %s --check-prefix=EARLY
// RUN: not sheaf-opt %s --split-input-file --dist-partition=reduce=never 2>&1 | FileCheck %s --check-prefix=NEVER
// NEVER: dist-partition: option 'reduce' is 'never', expected cheapest, early or late

dist.mesh @mesh ["dp" = 2, "tp" = 2]

// Local shapes and nothing else where nothing is to be sent.
// CHECK-LABEL: func.func @local
// CHECK-SAME: (%arg0: tensor<2x8xf32>
// CHECK-NEXT: nn.exp %arg0 : tensor<2x8xf32>
// CHECK-NEXT: return
func.func @local(%x: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{"dp"}, {}]>}) -> tensor<4x8xf32> {
  %y = nn.exp %x : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// A sum over a sharded dimension, with who asked for it.
// CHECK-LABEL: func.func @row
// CHECK: %[[P:.*]] = nn.einsum "be,ef->bf"{{.*}} -> tensor<4x16xf32, #dist.partial<["tp"], sum>>
// CHECK-NEXT: dist.all_reduce sum %[[P]] axes ["tp"]
// CHECK-SAME: dist.reason = {kind = "partial result", loc = "{{.*}}partition.mlir:[[#@LINE + 4]]:8", op = "nn.einsum", text = "nn.einsum sums over what is sharded over tp"}
// CHECK-NEXT: return
func.func @row(%x: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{}, {"tp"}]>},
               %w: tensor<8x16xf32> {dist.sharding = #dist.sharding<[{"tp"}, {}]>}) -> tensor<4x16xf32> {
  %y = nn.einsum "be,ef->bf"(%x, %w) : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  return %y : tensor<4x16xf32>
}

// Two sums that are added are reduced once; the third operand is put on one device.
// CHECK-LABEL: func.func @together
// CHECK-COUNT-1: dist.all_reduce
// CHECK-NOT: dist.all_reduce
// CHECK: return
// EARLY-LABEL: func.func @together
// EARLY-COUNT-2: dist.all_reduce
// EARLY: return
func.func @together(%x: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{}, {"tp"}]>},
                    %z: tensor<4xf32> {dist.sharding = #dist.sharding<[{}]>}) -> tensor<4xf32> {
  %a = nn.reduce sum %x dims [1] : (tensor<4x8xf32>) -> tensor<4xf32>
  %e = nn.exp %x : tensor<4x8xf32>
  %b = nn.reduce sum %e dims [1] : (tensor<4x8xf32>) -> tensor<4xf32>
  %c = nn.add %a, %b : tensor<4xf32>
  %y = nn.mul %c, %z : tensor<4xf32>
  return %y : tensor<4xf32>
}

// Queries in parts attend from where each part begins; keys and values are gathered,
// their gradients are sums over the queries, and scattered.
// CHECK-LABEL: func.func @attention
// CHECK-SAME: (%[[Q:.*]]: tensor<2x3x4x8xf32> {{.*}}, %[[K:.*]]: tensor<2x3x2x8xf32> {{.*}})
// CHECK-DAG: %[[KEYS:.*]] = dist.all_gather %[[K]] dim 1 axes ["dp"]
// CHECK-DAG: %[[I:.*]] = dist.axis_index ["dp"]
// CHECK-DAG: %[[THREE:.*]] = nn.constant dense<3> : tensor<i32>
// CHECK: %[[AT:.*]] = nn.mul %[[I]], %[[THREE]]
// CHECK: %[[Y:.*]], %[[L:.*]] = nn.attention %[[Q]], %[[KEYS]], %[[KEYS]] from %[[AT]] causal
// CHECK-SAME: -> (tensor<2x3x4x8xf32>, tensor<2x3x4xf32>)
// CHECK: %{{.*}}, %[[DK:.*]], %[[DV:.*]] = nn.attention_grad %[[Q]], %[[KEYS]], %[[KEYS]] result %[[Y]], %[[L]] grad %[[Y]] from %{{.*}} causal
// CHECK-SAME: -> (tensor<2x3x4x8xf32>, tensor<2x6x2x8xf32, #dist.partial<["dp"], sum>>, tensor<2x6x2x8xf32, #dist.partial<["dp"], sum>>)
// CHECK-DAG: dist.reduce_scatter sum %[[DK]] dim 1 axes ["dp"]
// CHECK-DAG: dist.reduce_scatter sum %[[DV]] dim 1 axes ["dp"]
// CHECK: return
func.func @attention(%q: tensor<2x6x4x8xf32> {dist.sharding = #dist.sharding<[{}, {"dp"}, {}, {}]>},
                     %k: tensor<2x6x2x8xf32> {dist.sharding = #dist.sharding<[{}, {"dp"}, {}, {}]>})
    -> (tensor<2x6x4x8xf32> {dist.sharding = #dist.sharding<[{}, {"dp"}, {}, {}]>},
        tensor<2x6x2x8xf32> {dist.sharding = #dist.sharding<[{}, {"dp"}, {}, {}]>},
        tensor<2x6x2x8xf32> {dist.sharding = #dist.sharding<[{}, {"dp"}, {}, {}]>}) {
  %y, %l = nn.attention %q, %k, %k causal : (tensor<2x6x4x8xf32>, tensor<2x6x2x8xf32>, tensor<2x6x2x8xf32>) -> (tensor<2x6x4x8xf32>, tensor<2x6x4xf32>)
  %dq, %dk, %dv = nn.attention_grad %q, %k, %k result %y, %l grad %y causal
    : (tensor<2x6x4x8xf32>, tensor<2x6x2x8xf32>, tensor<2x6x2x8xf32>, tensor<2x6x4x8xf32>, tensor<2x6x4xf32>, tensor<2x6x4x8xf32>)
    -> (tensor<2x6x4x8xf32>, tensor<2x6x2x8xf32>, tensor<2x6x2x8xf32>)
  return %dq, %dk, %dv : tensor<2x6x4x8xf32>, tensor<2x6x2x8xf32>, tensor<2x6x2x8xf32>
}

// A position that is there is added; where no position matters, none is given.
// CHECK-LABEL: func.func @attention_from
// CHECK-SAME: %[[P:[a-z0-9]+]]: tensor<i32>
// CHECK: %[[B:.*]] = nn.mul
// CHECK: %[[S:.*]] = nn.add %[[B]], %[[P]]
// CHECK: nn.attention {{.*}} from %[[S]] window 2
// CHECK-NOT: from
// CHECK: return
func.func @attention_from(%q: tensor<2x6x4x8xf32> {dist.sharding = #dist.sharding<[{}, {"tp"}, {}, {}]>},
                          %k: tensor<2x8x2x8xf32>, %p: tensor<i32>) -> (tensor<2x6x4x8xf32>, tensor<2x6x4x8xf32>) {
  %y = nn.attention %q, %k, %k from %p window 2 : (tensor<2x6x4x8xf32>, tensor<2x8x2x8xf32>, tensor<2x8x2x8xf32>, tensor<i32>) -> tensor<2x6x4x8xf32>
  %z = nn.attention %q, %k, %k : (tensor<2x6x4x8xf32>, tensor<2x8x2x8xf32>, tensor<2x8x2x8xf32>) -> tensor<2x6x4x8xf32>
  return %y, %z : tensor<2x6x4x8xf32>, tensor<2x6x4x8xf32>
}

// What is not linear is reduced before.
// CHECK-LABEL: func.func @nonlinear
// CHECK: nn.reduce
// CHECK-NEXT: dist.all_reduce
// CHECK-NEXT: nn.exp {{.*}} : tensor<4xf32>
func.func @nonlinear(%x: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{}, {"tp"}]>}) -> tensor<4xf32> {
  %a = nn.reduce sum %x dims [1] : (tensor<4x8xf32>) -> tensor<4xf32>
  %y = nn.exp %a : tensor<4xf32>
  return %y : tensor<4xf32>
}

// Wanted in shards, a sum is scattered.
// CHECK-LABEL: func.func @scatter
// CHECK: dist.reduce_scatter sum {{.*}} dim 0 axes ["tp"]
// CHECK-NOT: dist.all_reduce
// CHECK: return
func.func @scatter(%x: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{}, {"tp"}]>})
    -> (tensor<4xf32> {dist.sharding = #dist.sharding<[{"tp"}]>}) {
  %a = nn.reduce sum %x dims [1] : (tensor<4x8xf32>) -> tensor<4xf32>
  return %a : tensor<4xf32>
}

// The gradient of a layer passes through its function and the accumulator of the loop.
// CHECK-LABEL: func.func private @gradient
// CHECK-SAME: -> (tensor<8xf32, #dist.partial<["dp"], sum>>
func.func private @gradient(%x: tensor<2x8xf32>) -> tensor<8xf32> {
  %g = nn.reduce sum %x dims [0] {nn.role = "weight_gradient"} : (tensor<2x8xf32>) -> tensor<8xf32>
  return %g : tensor<8xf32>
}
// CHECK-LABEL: func.func @once
// CHECK: nn.microbatches 2 {{.*}} -> tensor<8xf32, #dist.partial<["dp"], sum>>
// CHECK-NOT: dist.all_reduce
// CHECK: nn.yield
// CHECK: dist.all_reduce sum {{.*}} axes ["dp"]
// CHECK: nn.exp
func.func @once(%x: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{"dp"} blocks 2, {}]>}) -> tensor<8xf32> {
  %zero = nn.constant dense<0.0> : tensor<8xf32>
  %sum = nn.microbatches 2 slices(%x : tensor<4x8xf32>) inits(%zero : tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%k: tensor<i32>, %part: tensor<2x8xf32>, %acc: tensor<8xf32>):
    %g = func.call @gradient(%part) : (tensor<2x8xf32>) -> tensor<8xf32>
    %next = nn.add %acc, %g : tensor<8xf32>
    nn.yield %next : tensor<8xf32>
  }
  %y = nn.exp %sum : tensor<8xf32>
  return %y : tensor<8xf32>
}

// A row of the table is on one device; a gather reads zeros on the other.
// CHECK-LABEL: func.func @embedding
// CHECK: %[[I:.*]] = dist.axis_index ["tp"] : tensor<i32>
// CHECK: %[[O:.*]] = nn.mul %[[I]], %{{.*}} : tensor<i32>
// CHECK: %[[H:.*]] = nn.sub %arg1, %[[O]]
// CHECK: nn.embedding %arg0[%[[H]]] : (tensor<8x4xf32>, tensor<3xi32>) -> tensor<3x4xf32, #dist.partial<["tp"], sum>>
// CHECK: dist.all_reduce
func.func @embedding(%t: tensor<16x4xf32> {dist.sharding = #dist.sharding<[{"tp"}, {}]>},
                     %i: tensor<3xi32> {dist.sharding = #dist.sharding<[{}]>}) -> tensor<3x4xf32> {
  %y = nn.embedding %t[%i] : (tensor<16x4xf32>, tensor<3xi32>) -> tensor<3x4xf32>
  return %y : tensor<3x4xf32>
}

// What an op needs whole is gathered once for two of them.
// CHECK-LABEL: func.func @gather
// CHECK-COUNT-1: dist.all_gather %arg0 dim 1 axes ["tp"]
// CHECK-NOT: dist.all_gather
// CHECK: return
func.func @gather(%x: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{}, {"tp"}]>}) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %y = nn.softmax %x dim 1 : tensor<4x8xf32>
  %z = nn.softmax %x dim 1 : tensor<4x8xf32>
  return %y, %z : tensor<4x8xf32>, tensor<4x8xf32>
}

// A constraint is a place where it is gathered again.
// CHECK-LABEL: func.func @again
// CHECK-COUNT-2: dist.all_gather %arg0 dim 0 axes ["dp"] {dist.reason = {kind = "annotation", {{.*}}text = "for use"}}
// CHECK: return
func.func @again(%x: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{"dp"}, {}]>}) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %a = dist.constraint %x <[{}, {}]> because "for use" : tensor<4x8xf32>
  %y = nn.exp %a : tensor<4x8xf32>
  %b = dist.constraint %x <[{}, {}]> because "for use" : tensor<4x8xf32>
  %z = nn.sin %b : tensor<4x8xf32>
  return %y, %z : tensor<4x8xf32>, tensor<4x8xf32>
}

// A constraint asks for axes; a sum over others may pass it.
// CHECK-LABEL: func.func @pass
// CHECK: dist.reduce_scatter sum %{{.*}} dim 0 axes ["dp"]
// CHECK-NEXT: dist.reduce_scatter {{.*}} -> tensor<4xf32, #dist.partial<["tp"], sum>>
// CHECK-NEXT: nn.add
// CHECK-NEXT: dist.all_reduce sum %{{.*}} axes ["tp"]
func.func @pass(%x: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{"dp"}, {"tp"}]>},
                %w: tensor<4x8x8xf32> {dist.sharding = #dist.sharding<[{"dp"}, {"tp"}, {}]>}) -> tensor<8xf32> {
  %g = nn.einsum "be,bef->f"(%x, %w) : (tensor<4x8xf32>, tensor<4x8x8xf32>) -> tensor<8xf32>
  %h = nn.einsum "bef,be->f"(%w, %x) : (tensor<4x8x8xf32>, tensor<4x8xf32>) -> tensor<8xf32>
  %a = dist.constraint %g <[{"dp"}]> : tensor<8xf32>
  %b = dist.constraint %h <[{"dp"}]> : tensor<8xf32>
  %s = nn.add %a, %b : tensor<8xf32>
  %y = nn.exp %s : tensor<8xf32>
  return %y : tensor<8xf32>
}

// What an entry gives is gathered in the phase of what made it.
// CHECK-LABEL: func.func @result
// CHECK: dist.all_gather {{.*}}kind = "annotation"{{.*}}text = "result 0 of @result has a sharding"}, nn.role = "optimizer"}
func.func @result(%x: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{"dp"}, {}]>})
    -> (tensor<4x8xf32> {dist.sharding = #dist.sharding<[{}, {}]>}) {
  %y = nn.exp %x {nn.role = "optimizer"} : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

// Padding reads as the neutral element where an op reduces over it.
dist.mesh @mesh ["tp" = 4]
// CHECK-LABEL: func.func @padded
// CHECK-SAME: (%arg0: tensor<2xf32>
// CHECK: %[[I:.*]] = dist.axis_index ["tp"]
// CHECK: %[[IN:.*]] = nn.reshape %{{.*}} : tensor<1x2xi1> -> tensor<2xi1>
// CHECK: %[[M:.*]] = nn.select %[[IN]], %arg0, %{{.*}} -> tensor<2xf32>
// CHECK: nn.reduce sum %[[M]]
func.func @padded(%x: tensor<5xf32> {dist.sharding = #dist.sharding<[{"tp"}]>}) -> tensor<f32> {
  %y = nn.reduce sum %x dims [0] : (tensor<5xf32>) -> tensor<f32>
  return %y : tensor<f32>
}

// Element by element it does not matter.
// CHECK-LABEL: func.func @elementwise
// CHECK-NEXT: nn.exp %arg0 : tensor<2xf32>
// CHECK-NEXT: return
func.func @elementwise(%x: tensor<5xf32> {dist.sharding = #dist.sharding<[{"tp"}]>}) -> tensor<5xf32> {
  %y = nn.exp %x : tensor<5xf32>
  return %y : tensor<5xf32>
}
