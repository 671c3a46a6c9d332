// RUN: sheaf-opt %s --split-input-file --verify-diagnostics --cpu-lower-kernels

// expected-error @below {{kernel 'shapes' cannot be one CPU kernel: a result of shape [5] does not have leading dimensions of the largest result, of shape [4, 6]; put its ops into several}}
func.func @shapes(%x: tensor<4x6xf32>, %y: tensor<5xf32>) -> (tensor<4x6xf32>, tensor<5xf32>) attributes {exec.kernel} {
  %a = nn.neg %x : tensor<4x6xf32>
  %b = nn.neg %y : tensor<5xf32>
  return %a, %b : tensor<4x6xf32>, tensor<5xf32>
}

// -----

// expected-error @below {{kernel 'nothing' cannot be one CPU kernel: it has no results; put its ops into several}}
func.func @nothing(%x: tensor<4x6xf32>) attributes {exec.kernel} {
  return
}

// -----

// expected-error @below {{kernel 'top' cannot be one CPU kernel: beside the results of nn.top_k there can be no others; put its ops into several}}
func.func @top(%x: tensor<4x6xf32>) -> (tensor<4x2xf32>, tensor<4x2xi32>, tensor<4x6xf32>) attributes {exec.kernel} {
  %v, %i = nn.top_k %x k 2 : (tensor<4x6xf32>) -> (tensor<4x2xf32>, tensor<4x2xi32>)
  return %v, %i, %x : tensor<4x2xf32>, tensor<4x2xi32>, tensor<4x6xf32>
}

// -----

// expected-error @below {{kernel 'inside' cannot be one CPU kernel: 'nn.top_k' cannot be computed element by element; put its ops into several}}
func.func @inside(%x: tensor<4x6xf32>) -> tensor<4x2xf32> attributes {exec.kernel} {
  %v, %i = nn.top_k %x k 2 : (tensor<4x6xf32>) -> (tensor<4x2xf32>, tensor<4x2xi32>)
  %w = nn.exp %v : tensor<4x2xf32>
  return %w : tensor<4x2xf32>
}

// -----

// expected-error @below {{kernel 'several' cannot be one CPU kernel: a result of shape [4] would be computed several times beside one of shape [4, 6]; put its ops into several}}
func.func @several(%x: tensor<4x6xf32>) -> (tensor<4xf32>, tensor<4x6xf32>) attributes {exec.kernel} {
  %a = nn.slice %x offsets [0, 0] sizes [4, 1] : (tensor<4x6xf32>) -> tensor<4x1xf32>
  %b = nn.reshape %a : tensor<4x1xf32> -> tensor<4xf32>
  %s = nn.reduce sum %x dims [0] keep : (tensor<4x6xf32>) -> tensor<1x6xf32>
  %y = nn.add %x, %s : (tensor<4x6xf32>, tensor<1x6xf32>) -> tensor<4x6xf32>
  return %b, %y : tensor<4xf32>, tensor<4x6xf32>
}

// -----

// expected-error @below {{kernel 'sort' cannot be one CPU kernel: nn.expert_sort is a kernel of its own; put its ops into several}}
func.func @sort(%e: tensor<2x6x2xi32>) -> (tensor<2x12xi32>, tensor<2x5xi32>) attributes {exec.kernel} {
  %o, %p, %q = nn.expert_sort %e of 4 : (tensor<2x6x2xi32>) -> (tensor<2x12xi32>, tensor<2x6x2xi32>, tensor<2x5xi32>)
  return %o, %q : tensor<2x12xi32>, tensor<2x5xi32>
}
