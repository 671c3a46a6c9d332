// RUN: sheaf-opt %s --split-input-file --verify-diagnostics --nn-to-exec

// expected-error @below {{argument of type 'tensor<?xf32>', expected a tensor of static shape}}
func.func @dynamic(%x: tensor<?xf32>) {
  return
}

// -----

// expected-error @below {{argument of type 'index', expected a tensor of static shape}}
func.func @number(%x: index) {
  return
}

// -----

// expected-error @below {{result of type 'f32', expected a tensor of static shape}}
func.func @result() -> f32 {
  %c = arith.constant 0.0 : f32
  return %c : f32
}

// -----

// expected-error @below {{has no body; every function must be defined}}
func.func private @declared(tensor<4xf32>) -> tensor<4xf32>

// -----

// expected-error @below {{has several blocks; expected straight-line nn code}}
func.func @blocks(%x: tensor<4xf32>) -> tensor<4xf32> {
  cf.br ^end
^end:
  return %x : tensor<4xf32>
}

// -----

func.func @foreign(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{cannot be given buffers: expected nn ops, calls of layers and nn.microbatches}}
  %c = arith.constant 1 : index
  %y = scf.for %i = %c to %c step %c iter_args(%a = %x) -> tensor<4xf32> {
    scf.yield %a : tensor<4xf32>
  }
  return %y : tensor<4xf32>
}

// -----

// expected-error @below {{has the name 'kernels', which the module of kernels gets; give it another}}
func.func @kernels(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

// expected-error @below {{results 0 and 1 are both the "result" "loss"; give each a name of its own (nn.result)}}
func.func @same_name(%x: tensor<4xf32>, %y: tensor<4xf32>)
    -> (tensor<4xf32> {nn.result = ["result", "loss"]}, tensor<4xf32> {nn.result = ["result", "loss"]}) {
  return %x, %y : tensor<4xf32>, tensor<4xf32>
}

// -----

dist.mesh @mesh ["tp" = 2]
// expected-error @below {{'func.func' op has argument 0 of type 'tensor<4xf32, #dist.partial<["tp"], sum>>', expected what dist-to-nn leaves: tensors without encoding}}
func.func @partial(%x: tensor<4xf32, #dist.partial<["tp"], sum>>) {
  return
}

// -----

// expected-error @below {{argument of type 'tensor<index>', expected a tensor of static shape of floats, signless integers or i1}}
func.func @index(%x: tensor<index>) {
  return
}
