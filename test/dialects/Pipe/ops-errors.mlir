// RUN: sheaf-opt %s --split-input-file --verify-diagnostics

// expected-error @below {{'pipe.pipeline' op has no stage, expected at least one}}
pipe.pipeline @none {
}

// -----

// expected-error @below {{'pipe.pipeline' op latency is -1, expected a number of at least 0}}
pipe.pipeline @latency attributes {latency = -1.0 : f64} {
  pipe.stage forward 1.0 input_gradient 1.0 weight_gradient 1.0
}

// -----

// expected-error @below {{'pipe.pipeline' op bandwidth is 0, expected bytes a second}}
pipe.pipeline @bandwidth attributes {bandwidth = 0.0 : f64} {
  pipe.stage forward 1.0 input_gradient 1.0 weight_gradient 1.0
}

// -----

pipe.pipeline @time {
  // expected-error @below {{'pipe.stage' op weight_gradient is -2, expected a number of at least 0}}
  pipe.stage forward 1.0 input_gradient 1.0 weight_gradient -2.0
}

// -----

pipe.pipeline @order {
  pipe.stage forward 1.0 input_gradient 1.0 weight_gradient 1.0
  pipe.value F 0 to [#pipe.use<I 0>] : tensor<4xf32>
  // expected-error @below {{'pipe.stage' op stands behind values, expected all stages before them}}
  pipe.stage forward 1.0 input_gradient 1.0 weight_gradient 1.0
}

// -----

pipe.pipeline @stages {
  pipe.stage forward 1.0 input_gradient 1.0 weight_gradient 1.0
  // expected-error @below {{'pipe.value' op names stage 1, expected one of the 1 stages}}
  pipe.value F 0 to [#pipe.use<F 1>] : tensor<4xf32>
}

// -----

pipe.pipeline @part {
  pipe.stage forward 1.0 input_gradient 1.0 weight_gradient 1.0
  // expected-error @below {{'pipe.value' op is computed by a B, expected its half, I or W}}
  pipe.value B 0 to [#pipe.use<I 0>] : tensor<4xf32>
}

// -----

pipe.pipeline @read {
  pipe.stage forward 1.0 input_gradient 1.0 weight_gradient 1.0
  // expected-error @below {{'pipe.value' op is read by a B, expected its half, I or W}}
  pipe.value F 0 to [#pipe.use<B 0>] : tensor<4xf32>
}

// -----

pipe.pipeline @other {
  pipe.stage forward 1.0 input_gradient 1.0 weight_gradient 1.0
  // expected-error @below {{'arith.constant' op stands in a pipeline, expected pipe.stage or pipe.value}}
  %0 = arith.constant 1 : i32
}

// -----

pipe.schedule @other of @model microbatches 1 {
  // expected-error @below {{'arith.constant' op stands in a schedule, expected pipe.rank}}
  %0 = arith.constant 1 : i32
}

// -----

pipe.schedule @action of @model microbatches 1 {
  pipe.rank stages [0] {
    // expected-error @below {{'arith.constant' op stands in the list of a rank, expected actions of the pipe dialect}}
    %0 = arith.constant 1 : i32
  }
}

// -----

pipe.schedule @fused of @model microbatches 1 {
  pipe.rank stages [0] {
    // expected-error @below {{'pipe.compute' op is fused with the next action, expected a pipe.compute behind it}}
    pipe.compute F 0 microbatch 0 fused () : () -> ()
  }
}

// -----

pipe.schedule @pairs of @model microbatches 3 {
  pipe.rank stages [0] {
    pipe.compute F 0 microbatch 0 fused () : () -> ()
    // expected-error @below {{'pipe.compute' op is fused with the action before and the one behind, expected pairs}}
    pipe.compute F 0 microbatch 1 fused () : () -> ()
    pipe.compute F 0 microbatch 2 () : () -> ()
  }
}

// -----

pipe.schedule @send of @model microbatches 1 {
  pipe.rank stages [0] {
    %0 = pipe.receive F 0 microbatch 0 value 0 from 1 : !pipe.transfer<tensor<4xf32>>
    // expected-error @below {{'pipe.wait_send' op waits for no send, expected the result of a pipe.send}}
    pipe.wait_send %0 : !pipe.transfer<tensor<4xf32>>
  }
}

// -----

pipe.schedule @receive of @model microbatches 1 {
  pipe.rank stages [0] {
    %0 = pipe.compute F 0 microbatch 0 () : () -> tensor<4xf32>
    %1 = pipe.send %0 to 1 : !pipe.transfer<tensor<4xf32>>
    // expected-error @below {{'pipe.wait_receive' op waits for no receive, expected the result of a pipe.receive}}
    %2 = pipe.wait_receive %1 : !pipe.transfer<tensor<4xf32>>
  }
}

// -----

// Of a value that is still to be summed there is no transfer.
dist.mesh @mesh ["tp" = 2]
pipe.schedule @partial of @model microbatches 1 {
  pipe.rank stages [0] {
    // expected-error @below {{op result #0 must be variadic of ranked tensor of static shape without an encoding, but got 'tensor<4xf32, #dist.partial<["tp"], sum>>'}}
    %0 = pipe.compute F 0 microbatch 0 () : () -> tensor<4xf32, #dist.partial<["tp"], sum>>
  }
}

// -----

pipe.schedule @number of @model microbatches 1 {
  pipe.rank stages [0] {
    // expected-error @below {{attribute 'stage' failed to satisfy constraint}}
    pipe.update -1
  }
}
