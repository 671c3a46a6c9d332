// RUN: sheaf-opt %s --split-input-file --verify-diagnostics --nn-convert-floats

// expected-error @below {{nn-convert-floats: @f is on buffers, expected a program on tensors}}
func.func @f(%a: memref<4xf32>) {
  return
}

// -----

// expected-error @below {{'pipe.pipeline' op is of the pipe dialect; nn-convert-floats expects a program on tensors}}
pipe.pipeline @model {
  pipe.stage forward 1.0 input_gradient 1.25 weight_gradient 7.5e-1
  pipe.stage forward 2.0 input_gradient 2.0 weight_gradient 0.0
  pipe.value F 0 to [#pipe.use<F 1>] : tensor<4x8xf32>
}
