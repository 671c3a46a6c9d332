// RUN: sheaf-opt %s --split-input-file --verify-diagnostics --pipe-verify

// An order that cannot run.
pipe.pipeline @model {
  pipe.stage forward 1.0 input_gradient 1.0 weight_gradient 1.0
  pipe.stage forward 1.0 input_gradient 1.0 weight_gradient 1.0
  pipe.value F 0 to [#pipe.use<F 1>] : tensor<4xf32>
  pipe.value I 1 to [#pipe.use<I 0>] : tensor<4xf32>
}
pipe.schedule @order of @model microbatches 1 {
  pipe.rank stages [0] {
    // expected-error @below {{the order cannot run: actions wait for each other in a circle, expected every action behind what it reads}}
    // expected-note @below {{'0B0' reads what rank 1 computes behind '1F0'}}
    pipe.compute B 0 microbatch 0 () : () -> ()
    pipe.compute F 0 microbatch 0 () : () -> ()
  }
  pipe.rank stages [1] {
    // expected-note @below {{'1F0' reads what rank 0 computes behind '0B0'}}
    pipe.compute F 1 microbatch 0 () : () -> ()
    pipe.compute B 1 microbatch 0 () : () -> ()
  }
}

// -----

// Sends and receives of two ranks in unlike orders.
pipe.pipeline @model {
  pipe.stage forward 1.0 input_gradient 1.0 weight_gradient 1.0
  pipe.stage forward 1.0 input_gradient 1.0 weight_gradient 1.0
  pipe.value F 0 to [#pipe.use<F 1>] : tensor<4xf32>
  pipe.value F 0 to [#pipe.use<F 1>] : tensor<4xf32>
}
pipe.schedule @deadlock of @model microbatches 1 {
  pipe.rank stages [0] {
    %x:2 = pipe.compute F 0 microbatch 0 () : () -> (tensor<4xf32>, tensor<4xf32>)
    // expected-error @below {{deadlock: ranks wait for each other in a circle, expected sends and receives of two ranks in the same order on both}}
    // expected-note @below {{'send(0F0,r1)' is the first in the queue of rank 0 for rank 1, and 'receive(0F0,r0)' stands behind 'receive(0F0#1,r0)' in the queue of rank 1 for rank 0}}
    %first = pipe.send %x#0 to 1 : !pipe.transfer<tensor<4xf32>>
    %second = pipe.send %x#1 to 1 : !pipe.transfer<tensor<4xf32>>
    pipe.wait_send %first : !pipe.transfer<tensor<4xf32>>
    pipe.wait_send %second : !pipe.transfer<tensor<4xf32>>
    pipe.free %x#0 : tensor<4xf32>
    pipe.free %x#1 : tensor<4xf32>
    pipe.compute B 0 microbatch 0 () : () -> ()
  }
  pipe.rank stages [1] {
    // expected-note @below {{'receive(0F0#1,r0)' is the first in the queue of rank 1 for rank 0, and 'send(0F0#1,r1)' stands behind 'send(0F0,r1)' in the queue of rank 0 for rank 1}}
    %second = pipe.receive F 0 microbatch 0 value 1 from 0 : !pipe.transfer<tensor<4xf32>>
    %first = pipe.receive F 0 microbatch 0 value 0 from 0 : !pipe.transfer<tensor<4xf32>>
    %x = pipe.wait_receive %first : !pipe.transfer<tensor<4xf32>>
    %y = pipe.wait_receive %second : !pipe.transfer<tensor<4xf32>>
    pipe.compute F 1 microbatch 0 (%x, %y) : (tensor<4xf32>, tensor<4xf32>) -> ()
    pipe.free %x : tensor<4xf32>
    pipe.free %y : tensor<4xf32>
    pipe.compute B 1 microbatch 0 () : () -> ()
  }
}

// -----

pipe.pipeline @model {
  pipe.stage forward 1.0 input_gradient 1.0 weight_gradient 1.0
  pipe.value F 0 to [#pipe.use<I 0>] : tensor<4xf32>
}
pipe.schedule @freed of @model microbatches 1 {
  pipe.rank stages [0] {
    // expected-error @+2 {{the buffer of '0F0' is never freed on rank 0, expected a free behind '0B0'}}
    %x = pipe.compute F 0 microbatch 0 () : () -> tensor<4xf32>
    pipe.compute B 0 microbatch 0 (%x) : (tensor<4xf32>) -> ()
  }
}

// -----

pipe.pipeline @model {
  pipe.stage forward 1.0 input_gradient 1.0 weight_gradient 1.0
  pipe.value F 0 to [#pipe.use<I 0>] : tensor<4xf32>
}
pipe.schedule @operand of @model microbatches 2 {
  pipe.rank stages [0] {
    %x = pipe.compute F 0 microbatch 0 () : () -> tensor<4xf32>
    // expected-error @below {{'pipe.compute' op operand 0 is '0F0', expected '0F1'}}
    pipe.compute B 0 microbatch 1 (%x) : (tensor<4xf32>) -> ()
  }
}

// -----

pipe.pipeline @model {
  pipe.stage forward 1.0 input_gradient 1.0 weight_gradient 1.0
  pipe.value F 0 to [#pipe.use<I 0>] : tensor<4xf32>
}
pipe.schedule @type of @model microbatches 1 {
  pipe.rank stages [0] {
    // expected-error @below {{'pipe.compute' op result 0 is a 'tensor<8xf32>', expected 'tensor<4xf32>'}}
    %x = pipe.compute F 0 microbatch 0 () : () -> tensor<8xf32>
  }
}

// -----

pipe.pipeline @model {
  pipe.stage forward 1.0 input_gradient 1.0 weight_gradient 1.0
  pipe.value F 0 to [#pipe.use<I 0>] : tensor<4xf32>
}
pipe.schedule @count of @model microbatches 1 {
  pipe.rank stages [0] {
    // expected-error @below {{'pipe.compute' op gives 2 values, expected the 1 that '0F0' computes}}
    %x:2 = pipe.compute F 0 microbatch 0 () : () -> (tensor<4xf32>, tensor<4xf32>)
  }
}

// -----

pipe.pipeline @model {
  pipe.stage forward 1.0 input_gradient 1.0 weight_gradient 1.0
  pipe.value F 0 to [#pipe.use<I 0>] : tensor<4xf32>
}
pipe.schedule @inputs of @model microbatches 1 {
  pipe.rank stages [0] {
    %x = pipe.compute F 0 microbatch 0 () : () -> tensor<4xf32>
    // expected-error @below {{'pipe.compute' op takes 2 values, expected the 1 that '0I0' reads}}
    pipe.compute I 0 microbatch 0 (%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> ()
  }
}

// -----

pipe.pipeline @model {
  pipe.stage forward 1.0 input_gradient 1.0 weight_gradient 1.0
}
pipe.schedule @stage of @model microbatches 1 {
  // expected-error @below {{'pipe.rank' op has stage 1, expected one of the 1 stages of '@model'}}
  pipe.rank stages [1] {
  }
}

// -----

pipe.pipeline @model {
  pipe.stage forward 1.0 input_gradient 1.0 weight_gradient 1.0
}
pipe.schedule @twice of @model microbatches 1 {
  // expected-note @below {{this rank has it, too}}
  pipe.rank stages [0] {
  }
  // expected-error @below {{'pipe.rank' op has stage 0, expected it on one rank}}
  pipe.rank stages [0] {
  }
}

// -----

pipe.pipeline @model {
  pipe.stage forward 1.0 input_gradient 1.0 weight_gradient 1.0
}
// expected-error @below {{'pipe.schedule' op has stage 0 on no rank, expected all 1 stages of '@model'}}
pipe.schedule @nowhere of @model microbatches 1 {
  pipe.rank stages [] {
  }
}

// -----

pipe.pipeline @model {
  pipe.stage forward 1.0 input_gradient 1.0 weight_gradient 1.0
}
pipe.schedule @microbatch of @model microbatches 1 {
  pipe.rank stages [0] {
    // expected-error @below {{'pipe.compute' op runs microbatch 1, expected one of the 1}}
    pipe.compute F 0 microbatch 1 () : () -> ()
  }
}

// -----

pipe.pipeline @model {
  pipe.stage forward 1.0 input_gradient 1.0 weight_gradient 1.0
  pipe.stage forward 1.0 input_gradient 1.0 weight_gradient 1.0
}
pipe.schedule @other of @model microbatches 1 {
  pipe.rank stages [0] {
    // expected-error @below {{'pipe.compute' op runs stage 1, expected one that its rank has}}
    pipe.compute F 1 microbatch 0 () : () -> ()
  }
  pipe.rank stages [1] {
  }
}

// -----

pipe.pipeline @model {
  pipe.stage forward 1.0 input_gradient 1.0 weight_gradient 1.0
  pipe.value F 0 to [#pipe.use<I 0>] : tensor<4xf32>
}
pipe.schedule @value of @model microbatches 1 {
  pipe.rank stages [0] {
    // expected-error @below {{'pipe.receive' op means '0F0#1', which is no value of '@model', expected one that a stage hands on}}
    %x = pipe.receive F 0 microbatch 0 value 1 from 1 : !pipe.transfer<tensor<4xf32>>
  }
}

// -----

pipe.pipeline @model {
  pipe.stage forward 1.0 input_gradient 1.0 weight_gradient 1.0
  pipe.value F 0 to [#pipe.use<I 0>] : tensor<4xf32>
}
pipe.schedule @landing of @model microbatches 1 {
  pipe.rank stages [0] {
    // expected-error @below {{'pipe.receive' op receives a 'tensor<8xf32>', expected 'tensor<4xf32>'}}
    %x = pipe.receive F 0 microbatch 0 value 0 from 1 : !pipe.transfer<tensor<8xf32>>
  }
}
