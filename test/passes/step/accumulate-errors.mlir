// RUN: sheaf-opt %s --split-input-file --verify-diagnostics --nn-differentiate --nn-accumulate=microbatches=4

// expected-error@below {{'func.func' op has a batch of 6 samples, which 4 microbatches do not divide; the nearest that fit: 3 or 6}}
func.func @loss(%t: tensor<6x8xi32> {nn.batch = "tokens"}) -> tensor<f32> {
  %l = nn.constant dense<0.0> : tensor<f32>
  return %l : tensor<f32>
}

// -----

// expected-error@below {{'func.func' op has no batch argument (nn.batch) to cut into 4 microbatches}}
func.func @loss(%t: tensor<6x8xi32>) -> tensor<f32> {
  %l = nn.constant dense<0.0> : tensor<f32>
  return %l : tensor<f32>
}

// -----

// expected-error@below {{'func.func' op argument 1 has 8 samples and argument 0 has 4, expected the same}}
func.func @loss(%t: tensor<4x8xi32> {nn.batch = "tokens"}, %g: tensor<8x4xi32> {nn.batch = "targets"}) -> tensor<f32> {
  %l = nn.constant dense<0.0> : tensor<f32>
  return %l : tensor<f32>
}

// -----

// expected-error@below {{'func.func' op has results of types ('tensor<4x8xf32>'), expected scalars: the loss, and others that are logged}}
func.func @loss(%t: tensor<4x8xi32> {nn.batch = "tokens"}) -> tensor<4x8xf32> {
  %x = nn.cast %t : tensor<4x8xi32> -> tensor<4x8xf32>
  return %x : tensor<4x8xf32>
}

// -----

// A mean over samples that is not that of the whole step.
func.func @loss(%t: tensor<4x8xi32> {nn.batch = "tokens"}) -> tensor<f32> {
  %x = nn.cast %t : tensor<4x8xi32> -> tensor<4x8xf32>
  // expected-error@+1 {{'nn.reduce' op cannot run in microbatches: it adds up samples in the forward; keep a value for each sample, and use nn.step_mean for the mean over the step}}
  %l = nn.reduce mean %x dims [0, 1] : (tensor<4x8xf32>) -> tensor<f32>
  return %l : tensor<f32>
}

// -----

func.func @loss(%t: tensor<4x8xi32> {nn.batch = "tokens"}) -> tensor<f32> {
  // expected-error@+1 {{'nn.iota' op cannot run in microbatches: it numbers the samples of the batch}}
  %i = nn.iota dim 0 : tensor<4x8xi32>
  %s = nn.add %i, %t : tensor<4x8xi32>
  %x = nn.cast %s : tensor<4x8xi32> -> tensor<4x8xf32>
  %all = nn.constant dense<true> : tensor<4x8xi1>
  %l = nn.step_mean %x weights %all : (tensor<4x8xf32>, tensor<4x8xi1>) -> tensor<f32>
  return %l : tensor<f32>
}

// -----

func.func @loss(%t: tensor<4x8xi32> {nn.batch = "tokens"}) -> tensor<f32> {
  %x = nn.cast %t : tensor<4x8xi32> -> tensor<4x8xf32>
  // expected-error@+1 {{'nn.softmax' op cannot run in microbatches: it mixes samples}}
  %y = nn.softmax %x dim 0 : tensor<4x8xf32>
  %all = nn.constant dense<true> : tensor<4x8xi1>
  %l = nn.step_mean %y weights %all : (tensor<4x8xf32>, tensor<4x8xi1>) -> tensor<f32>
  return %l : tensor<f32>
}

// -----

func.func @loss(%t: tensor<4x8xi32> {nn.batch = "tokens"}) -> tensor<f32> {
  %x = nn.cast %t : tensor<4x8xi32> -> tensor<4x8xf32>
  // expected-error@+1 {{'nn.constant' op cannot run in microbatches: it has elements that depend on the sample; make them a batch argument, or one sample that is broadcast}}
  %c = nn.constant dense<[[1.0], [2.0], [3.0], [4.0]]> : tensor<4x1xf32>
  %y = nn.mul %x, %c : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %all = nn.constant dense<true> : tensor<4x8xi1>
  %l = nn.step_mean %y weights %all : (tensor<4x8xf32>, tensor<4x8xi1>) -> tensor<f32>
  return %l : tensor<f32>
}

// -----

func.func @loss(%t: tensor<4x8xi32> {nn.batch = "tokens"}, %key: tensor<4xi32> {nn.rng}) -> tensor<f32> {
  %x = nn.cast %t : tensor<4x8xi32> -> tensor<4x8xf32>
  %f = nn.reshape %x : tensor<4x8xf32> -> tensor<32xf32>
  %s = nn.constant dense<0> : tensor<i32>
  // expected-error@+1 {{'nn.dropout' op cannot run in microbatches: it draws random numbers in dimension 0 of 'tensor<32xf32>', which counts samples; expected the 4 samples in dimension 0}}
  %y = nn.dropout %f, %key, %s rate 0.5 : (tensor<32xf32>, tensor<4xi32>, tensor<i32>) -> tensor<32xf32>
  %all = nn.constant dense<true> : tensor<32xi1>
  %l = nn.step_mean %y weights %all : (tensor<32xf32>, tensor<32xi1>) -> tensor<f32>
  return %l : tensor<f32>
}

// -----

// The count must be known before the first microbatch.
func.func @loss(%w: tensor<f32> {nn.param = #nn.param<"w", axes = [], init = constant(1)>},
                %t: tensor<4x8xi32> {nn.batch = "tokens"}) -> tensor<f32> {
  %x = nn.cast %t : tensor<4x8xi32> -> tensor<4x8xf32>
  %m = nn.compare gt %x, %w : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xi1>
  // expected-error@+1 {{'nn.step_mean' op has weights that depend on argument 0 of the loss; they may depend on batch arguments (nn.batch) alone, so that their sum is known before the first microbatch}}
  %l = nn.step_mean %x weights %m : (tensor<4x8xf32>, tensor<4x8xi1>) -> tensor<f32>
  return %l : tensor<f32>
}

// -----

// expected-error@below {{'func.func' op result 1 has no name, expected nn.result = ["result", "name in the log"]}}
func.func @loss(%t: tensor<4x8xi32> {nn.batch = "tokens"}) -> (tensor<f32>, tensor<f32>) {
  %l = nn.constant dense<0.0> : tensor<f32>
  return %l, %l : tensor<f32>, tensor<f32>
}

// -----

// expected-error@below {{'func.func' op result 1 has the name "loss", which another result has; give it one of its own}}
func.func @loss(%t: tensor<4x8xi32> {nn.batch = "tokens"}) -> (tensor<f32>, tensor<f32> {nn.result = ["result", "loss"]}) {
  %l = nn.constant dense<0.0> : tensor<f32>
  return %l, %l : tensor<f32>, tensor<f32>
}

// -----

// expected-error@below {{'func.func' op result 1 has nn.weight = "much", expected a finite number}}
func.func @loss(%t: tensor<4x8xi32> {nn.batch = "tokens"}) -> (tensor<f32>, tensor<f32> {nn.result = ["result", "other"], nn.weight = "much"}) {
  %l = nn.constant dense<0.0> : tensor<f32>
  return %l, %l : tensor<f32>, tensor<f32>
}
