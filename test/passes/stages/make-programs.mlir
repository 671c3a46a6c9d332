// RUN: sheaf-opt %s --pipe-make-programs=schedule=1f1b | FileCheck %s
// RUN: sheaf-opt %s --pipe-make-programs="schedule=gpipe chunks=1" | FileCheck %s --check-prefix=GPIPE

// Two stages on the ranks of pp, behind each of which stand two of dp. The weight %v is read
// by both stages, %w by the first.

module attributes {exec.mesh = [["pp", 2], ["dp", 2]]} {
  func.func private @stage0_forward(%x: tensor<2xf32>, %w: tensor<f32>, %v: tensor<f32>) -> tensor<2xf32>
      attributes {pipe.part = "F", pipe.stage = 0 : i64} {
    %a = nn.mul %x, %w : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
    %y = nn.mul %a, %v : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
    return %y : tensor<2xf32>
  }
  func.func private @stage1_forward(%y: tensor<2xf32>, %v: tensor<f32>) -> tensor<f32>
      attributes {pipe.part = "F", pipe.stage = 1 : i64} {
    %z = nn.mul %y, %v : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
    %l = nn.reduce sum %z dims [0] : (tensor<2xf32>) -> tensor<f32>
    return %l : tensor<f32>
  }
  func.func private @stage1_backward(%y: tensor<2xf32>, %v: tensor<f32>) -> (tensor<2xf32>, tensor<f32>)
      attributes {pipe.part = "B", pipe.stage = 1 : i64} {
    %d = nn.broadcast %v dims [] : tensor<f32> -> tensor<2xf32>
    %dv = nn.reduce sum %y dims [0] : (tensor<2xf32>) -> tensor<f32>
    return %d, %dv : tensor<2xf32>, tensor<f32>
  }
  func.func private @stage0_backward(%x: tensor<2xf32>, %d: tensor<2xf32>) -> (tensor<f32>, tensor<f32>)
      attributes {pipe.part = "B", pipe.stage = 0 : i64} {
    %p = nn.mul %x, %d : tensor<2xf32>
    %dw = nn.reduce sum %p dims [0] : (tensor<2xf32>) -> tensor<f32>
    return %dw, %dw : tensor<f32>, tensor<f32>
  }

  // A rank has the parameters that its stages read, and what it needs of them.
  // CHECK-LABEL: func.func @init_pp0(
  // CHECK-SAME: ["parameter", "w"]{{.*}}["parameter", "v"]
  // CHECK-LABEL: func.func @init_pp1(
  // CHECK-SAME: -> (tensor<f32> {nn.result = ["parameter", "v"]})
  func.func @init(%key: tensor<4xi32> {nn.rng}) -> (tensor<f32> {nn.result = ["parameter", "w"]}, tensor<f32> {nn.result = ["parameter", "v"]}) {
    %w = nn.constant dense<1.0> : tensor<f32>
    %v = nn.constant dense<2.0> : tensor<f32>
    return %w, %v : tensor<f32>, tensor<f32>
  }

  // The first rank sends each activation behind its forward; one forward is ahead.
  // CHECK-LABEL: func.func @gradients_pp0(
  // CHECK-SAME: %[[T:.*]]: tensor<4xf32>, %[[W:.*]]: tensor<f32> {nn.param = {{.*}}"w"{{.*}}, %[[V:.*]]: tensor<f32> {nn.param = {{.*}}"v"
  // CHECK-SAME: exec.place = ["gradients", 0]
  // CHECK: %[[X0:.*]] = nn.slice %[[T]] offsets [0] sizes [2]
  // CHECK: %[[Y0:.*]] = call @stage0_forward(%[[X0]], %[[W]], %[[V]]) {exec.action = "0F0"}
  // CHECK: %[[H0:.*]] = exec.send %[[Y0]] to 1 size 2 stride 2 about {axes = ["pp"], name = "0F0 to 1F0, rank 0 to 1"}
  // CHECK: %[[X1:.*]] = nn.slice %[[T]] offsets [2] sizes [2]
  // CHECK: %[[Y1:.*]] = call @stage0_forward(%[[X1]]
  // CHECK: exec.wait_send %[[H0]], %[[Y0]]
  // CHECK: exec.send %[[Y1]] to 1
  // CHECK: exec.receive from 1 size 2 stride 2 about {axes = ["pp"], name = "1B0 to 0B0, rank 1 to 0"}
  // CHECK: %[[D0:.*]] = exec.wait_receive
  // CHECK: call @stage0_backward(%[[X0]], %[[D0]])
  // CHECK-COUNT-2: nn.add
  // CHECK: call @stage0_backward(
  // CHECK-COUNT-2: nn.add

  // Behind the last action: the loss, from the last rank; the gradient of %v, of both; the
  // norm, of what is all here, for the other.
  // CHECK: exec.transfer broadcast %{{.*}} sizes [2] strides [2] root 1
  // CHECK: %[[G:.*]], %[[STARTED:.*]] = exec.receive from 1
  // CHECK: %[[H:.*]] = exec.send %[[OWN:.*]] to 1
  // CHECK: %[[OTHER:.*]] = exec.wait_receive %[[G]], %[[STARTED]]
  // CHECK: %[[SUM:.*]] = nn.add %[[OWN]], %[[OTHER]]
  // CHECK: exec.wait_send %[[H]], %[[OWN]]
  // CHECK-COUNT-2: nn.reduce sum_of_squares
  // CHECK: exec.transfer broadcast %{{.*}} sizes [2] strides [2] about

  // CHECK-LABEL: func.func @gradients_pp1(
  // CHECK-NOT: "w"
  // CHECK: exec.place = ["gradients", 1]
  // CHECK: exec.receive from 0
  // CHECK: %[[Y:.*]] = exec.wait_receive
  // CHECK: call @stage1_forward(%[[Y]]
  // CHECK: call @stage1_backward(%[[Y]]
  // The norm counts %v on the first rank that has it.
  // CHECK: exec.receive from 0
  // CHECK-NOT: sum_of_squares
  // CHECK: exec.transfer broadcast

  // GPIPE-LABEL: func.func @gradients_pp0(
  // GPIPE-COUNT-2: call @stage0_forward
  // GPIPE-NOT: call @stage0_forward
  // GPIPE-COUNT-2: call @stage0_backward
  func.func @gradients(%t: tensor<4xf32>,
      %w: tensor<f32> {nn.param = #nn.param<"w", axes = [], init = constant(1)>},
      %v: tensor<f32> {nn.param = #nn.param<"v", axes = [], init = constant(1)>})
      -> (tensor<f32> {nn.result = ["result", "loss"]}, tensor<f32> {nn.result = ["gradient", "w"]},
          tensor<2xf32> {nn.result = ["gradient", "v"]}, tensor<f32> {nn.result = ["result", "grad_norm"]}) {
    %zero = nn.constant dense<0.0> : tensor<f32>
    %s:4 = nn.microbatches 2 slices(%t : tensor<4xf32>) inits(%zero, %zero, %zero, %zero : tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>)
        -> tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32> {
    ^bb0(%k: tensor<i32>, %x: tensor<2xf32>, %loss: tensor<f32>, %gw: tensor<f32>, %gv0: tensor<f32>, %gv1: tensor<f32>):
      %y = func.call @stage0_forward(%x, %w, %v) : (tensor<2xf32>, tensor<f32>, tensor<f32>) -> tensor<2xf32>
      %l = func.call @stage1_forward(%y, %v) : (tensor<2xf32>, tensor<f32>) -> tensor<f32>
      %d, %dv1 = func.call @stage1_backward(%y, %v) : (tensor<2xf32>, tensor<f32>) -> (tensor<2xf32>, tensor<f32>)
      %dw, %dv0 = func.call @stage0_backward(%x, %d) : (tensor<2xf32>, tensor<2xf32>) -> (tensor<f32>, tensor<f32>)
      %loss1 = nn.add %loss, %l : tensor<f32>
      %gw1 = nn.add %gw, %dw : tensor<f32>
      %gv01 = nn.add %gv0, %dv0 : tensor<f32>
      %gv11 = nn.add %gv1, %dv1 : tensor<f32>
      nn.yield %loss1, %gw1, %gv01, %gv11 : tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>
    }
    %wide0 = nn.broadcast %s#2 dims [] : tensor<f32> -> tensor<2xf32>
    %wide1 = nn.broadcast %s#3 dims [] : tensor<f32> -> tensor<2xf32>
    %gv = nn.add %wide0, %wide1 : tensor<2xf32>
    %qw = nn.reduce sum_of_squares %s#1 dims [] : (tensor<f32>) -> tensor<f32>
    %qv = nn.reduce sum_of_squares %gv dims [0] : (tensor<2xf32>) -> tensor<f32>
    %q = nn.add %qw, %qv : tensor<f32>
    %norm = nn.sqrt %q : tensor<f32>
    return %s#0, %s#1, %gv, %norm : tensor<f32>, tensor<f32>, tensor<2xf32>, tensor<f32>
  }
}
