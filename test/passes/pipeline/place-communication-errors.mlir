// RUN: sheaf-opt %s --split-input-file --verify-diagnostics --pipe-place-communication
// RUN: not sheaf-opt %s --split-input-file --pipe-place-communication="weights=never" 2>&1 | FileCheck %s

// CHECK: error: pipe-place-communication: weights is 'never', expected resident, once or each-run

pipe.pipeline @model {
  pipe.stage forward 1.0 input_gradient 1.0 weight_gradient 1.0
}
// expected-error @below {{'pipe.schedule' op has values or communication already, expected compute actions alone}}
pipe.schedule @already of @model microbatches 1 {
  pipe.rank stages [0] {
    pipe.compute F 0 microbatch 0 () : () -> ()
    pipe.compute B 0 microbatch 0 () : () -> ()
    pipe.reduce_gradients 0
  }
}

// -----

pipe.pipeline @model {
  pipe.stage forward 1.0 input_gradient 1.0 weight_gradient 1.0
}
pipe.schedule @missing of @model microbatches 2 {
  // expected-error @below {{'0B1' is missing on rank 0, expected one B, or one I and one W, of stage 0 for each of the 2 microbatches}}
  pipe.rank stages [0] {
    pipe.compute F 0 microbatch 0 () : () -> ()
    pipe.compute F 0 microbatch 1 () : () -> ()
    pipe.compute B 0 microbatch 0 () : () -> ()
  }
}

// -----

// expected-error @below {{'pipe.schedule' op is of '@model', which is no pipe.pipeline, expected one}}
pipe.schedule @none of @model microbatches 1 {
  pipe.rank stages [0] {
  }
}
