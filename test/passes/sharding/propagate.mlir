// RUN: sheaf-opt %s --split-input-file --dist-propagate | FileCheck %s

dist.mesh @mesh ["dp" = 2, "tp" = 2]

// Forwards, through an op that keeps the dimension and one that lacks it.
// CHECK-LABEL: func.func @forward
// CHECK: nn.einsum {{.*}}dist.shardings = [#dist.sharding<[{"dp"}, {"tp"}]>]
// CHECK: nn.reduce {{.*}}dist.shardings = [#dist.sharding<[{"tp"}]>]
func.func @forward(%x: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{"dp"}, {}]>},
                   %w: tensor<8x16xf32> {dist.sharding = #dist.sharding<[{}, {"tp"}]>}) -> tensor<16xf32> {
  %y = nn.einsum "be,ef->bf"(%x, %w) : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  %z = nn.reduce sum %y dims [0] : (tensor<4x16xf32>) -> tensor<16xf32>
  return %z : tensor<16xf32>
}

// Backwards, from a result; an argument without a sharding takes it.
// CHECK-LABEL: func.func @backward
// CHECK-SAME: %arg0: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{"dp"}, {}]>}
func.func @backward(%x: tensor<4x8xf32>) -> (tensor<4x8xf32> {dist.sharding = #dist.sharding<[{"dp"}, {}]>}) {
  %y = nn.exp %x : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// A reshape that splits a dimension: the outer part has the axis; what it does not divide
// stays where it is.
// CHECK-LABEL: func.func @reshape
// CHECK: nn.reshape {{.*}}dist.shardings = [#dist.sharding<[{"dp"}, {}, {}]>]
// CHECK: nn.reshape {{.*}}dist.shardings = [#dist.sharding<[{}, {}]>]
func.func @reshape(%x: tensor<12xf32> {dist.sharding = #dist.sharding<[{"dp"}]>}) {
  %y = nn.reshape %x : tensor<12xf32> -> tensor<2x3x2xf32>
  %z = nn.reshape %x : tensor<12xf32> -> tensor<3x4xf32>
  return
}

// Parts of a dimension pass as blocks.
// CHECK-LABEL: func.func @blocks
// CHECK: nn.reshape {{.*}}dist.shardings = [#dist.sharding<[{}, {"tp"}, {}]>]
// CHECK: nn.exp {{.*}}dist.shardings = [#dist.sharding<[{"tp"} blocks 3]>]
func.func @blocks(%x: tensor<24xf32> {dist.sharding = #dist.sharding<[{"tp"} blocks 3]>}) {
  %y = nn.reshape %x : tensor<24xf32> -> tensor<3x4x2xf32>
  %z = nn.exp %x : tensor<24xf32>
  return
}

// The stronger wish, wherever it stands in the file.
// CHECK-LABEL: func.func @priority
// CHECK: nn.add {{.*}}dist.shardings = [#dist.sharding<[{}, {"tp"}]>]
func.func @priority(%a: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{"tp"} p1, {}]>},
                    %b: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{}, {"tp"}]>}) {
  %y = nn.add %a, %b : tensor<4x8xf32>
  return
}

// Nothing passes a constraint, in either direction.
// CHECK-LABEL: func.func @constraint
// CHECK: nn.exp {{.*}}dist.shardings = [#dist.sharding<[{"dp"}, {}]>]
// CHECK: dist.constraint {{.*}} <[{}, {"tp"}]>
// CHECK: nn.exp {{.*}}dist.shardings = [#dist.sharding<[{}, {"tp"}]>]
func.func @constraint(%x: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{"dp"}, {}]>}) {
  %y = nn.exp %x : tensor<4x8xf32>
  %z = dist.constraint %y <[{}, {"tp"}]> : tensor<4x8xf32>
  %u = nn.exp %z : tensor<4x8xf32>
  return
}

// A dimension that the op needs whole lets nothing through.
// CHECK-LABEL: func.func @whole
// CHECK: nn.softmax {{.*}}dist.shardings = [#dist.sharding<[{"dp"}, {}]>]
func.func @whole(%x: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{"dp"}, {"tp"}]>}) {
  %y = nn.softmax %x dim 1 : tensor<4x8xf32>
  return
}

// Into functions and out of them, and round the loop.
// CHECK-LABEL: func.func private @layer
// CHECK-SAME: %arg0: tensor<2x8xf32> {dist.sharding = #dist.sharding<[{"dp"}, {}]>}
func.func private @layer(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %y = nn.exp %x : tensor<2x8xf32>
  return %y : tensor<2x8xf32>
}
// CHECK-LABEL: func.func @loop
// CHECK: nn.microbatches 2
// CHECK-SAME: dist.argument_shardings = [#dist.sharding<[]>, #dist.sharding<[{"dp"}, {}]>, #dist.sharding<[{"dp"}, {}]>]
// CHECK: call @layer{{.*}}dist.shardings = [#dist.sharding<[{"dp"}, {}]>]
func.func @loop(%x: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{"dp"} blocks 2, {}]>}) -> tensor<2x8xf32> {
  %zero = nn.constant dense<0.0> : tensor<2x8xf32>
  %sum = nn.microbatches 2 slices(%x : tensor<4x8xf32>) inits(%zero : tensor<2x8xf32>) -> tensor<2x8xf32> {
  ^bb0(%k: tensor<i32>, %part: tensor<2x8xf32>, %acc: tensor<2x8xf32>):
    %y = func.call @layer(%part) : (tensor<2x8xf32>) -> tensor<2x8xf32>
    %next = nn.add %acc, %y : tensor<2x8xf32>
    nn.yield %next : tensor<2x8xf32>
  }
  return %sum : tensor<2x8xf32>
}

// -----

// What an argument has is given; that it is returned otherwise is a wish.
dist.mesh @mesh ["x" = 4, "y" = 2]
// CHECK-LABEL: func.func @returned
// CHECK-SAME: %arg0: tensor<8x8xf32> {dist.sharding = #dist.sharding<[{"y"}, {}]>}
func.func @returned(%v: tensor<8x8xf32> {dist.sharding = #dist.sharding<[{"y"}, {}]>})
    -> (tensor<8x8xf32> {dist.sharding = #dist.sharding<[{}, {"x", "y"}]>}) {
  return %v : tensor<8x8xf32>
}

// -----

// Calls with other shardings have a copy of the function, equal ones share it; what it calls
// is copied, too.
dist.mesh @mesh ["a" = 2, "b" = 2]
// CHECK: func.func private @layer(
// CHECK-SAME: %arg0: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{"a"}, {}]>}
// CHECK: call @inner(
// CHECK: func.func private @[[LAYER:layer_[0-9]+]](
// CHECK-SAME: %arg0: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{}, {"b"}]>}
// CHECK: call @[[INNER:inner_[0-9]+]](
func.func private @layer(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %y = func.call @inner(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %z = nn.neg %y : tensor<4x8xf32>
  return %z : tensor<4x8xf32>
}
// CHECK: func.func private @inner(
// CHECK-SAME: #dist.sharding<[{"a"}, {}]>
// CHECK: func.func private @[[INNER]](
// CHECK-SAME: #dist.sharding<[{}, {"b"}]>
func.func private @inner(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %y = nn.exp %x : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
// CHECK: func.func @two_signatures
// CHECK: call @layer(
// CHECK: call @[[LAYER]](
// CHECK: call @layer(
// CHECK: nn.microbatches
// CHECK: call @[[LAYER]](
func.func @two_signatures(%x: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{"a"}, {}]>},
                          %y: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{}, {"b"}]>},
                          %z: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{"a"}, {}]>}) {
  %p = func.call @layer(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %q = func.call @layer(%y) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %r = func.call @layer(%z) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  nn.microbatches 2 {
  ^bb0(%k: tensor<i32>):
    %s = func.call @layer(%q) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    nn.yield
  }
  return
}
