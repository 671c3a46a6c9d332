// Gathers, the largest elements, random numbers.
func.func @embedding(%t: tensor<11x40xFT>, %i: tensor<4x6xi32> {test.range = [-2.0, 12.0]}) -> tensor<4x6x40xFT> attributes {exec.kernel} {
  %y = nn.embedding %t[%i] : (tensor<11x40xFT>, tensor<4x6xi32>) -> tensor<4x6x40xFT>
  return %y : tensor<4x6x40xFT>
}
func.func @gather_middle(%t: tensor<3x11x20xFT>, %i: tensor<7xi32> {test.range = [-2.0, 12.0]}) -> tensor<3x7x20xFT> attributes {exec.kernel} {
  %y = nn.gather %t[%i] axis 1 : (tensor<3x11x20xFT>, tensor<7xi32>) -> tensor<3x7x20xFT>
  return %y : tensor<3x7x20xFT>
}
func.func @gather_last(%t: tensor<5x40xFT>, %i: tensor<20xi32> {test.range = [-2.0, 42.0]}) -> tensor<5x20xFT> attributes {exec.kernel} {
  %y = nn.gather %t[%i] axis 1 : (tensor<5x40xFT>, tensor<20xi32>) -> tensor<5x20xFT>
  return %y : tensor<5x20xFT>
}
func.func @gather_batch(%t: tensor<5x40xFT>, %i: tensor<5x3xi32> {test.range = [-2.0, 42.0]}) -> tensor<5x3xFT> attributes {exec.kernel} {
  %y = nn.gather %t[%i] axis 1 batch 1 : (tensor<5x40xFT>, tensor<5x3xi32>) -> tensor<5x3xFT>
  return %y : tensor<5x3xFT>
}
func.func @gather_scalar(%t: tensor<5x40xFT>, %i: tensor<i32> {test.range = [0.0, 4.0]}) -> tensor<40xFT> attributes {exec.kernel} {
  %y = nn.gather %t[%i] axis 0 : (tensor<5x40xFT>, tensor<i32>) -> tensor<40xFT>
  return %y : tensor<40xFT>
}
func.func @gather_flags(%t: tensor<5x40xi1>, %i: tensor<7xi32> {test.range = [-1.0, 5.0]}) -> tensor<7x40xi1> attributes {exec.kernel} {
  %y = nn.gather %t[%i] axis 0 : (tensor<5x40xi1>, tensor<7xi32>) -> tensor<7x40xi1>
  return %y : tensor<7x40xi1>
}
func.func @gather_of_computed(%t: tensor<5x40xFT>, %i: tensor<7xi32> {test.range = [-1.0, 5.0]}) -> tensor<7x40xFT> attributes {exec.kernel, test.tolerance = 2.0} {
  %u = nn.exp %t : tensor<5x40xFT>
  %one = nn.constant dense<1> : tensor<i32>
  %j = nn.add %i, %one : (tensor<7xi32>, tensor<i32>) -> tensor<7xi32>
  %y = nn.gather %u[%j] axis 0 : (tensor<5x40xFT>, tensor<7xi32>) -> tensor<7x40xFT>
  return %y : tensor<7x40xFT>
}
func.func @gather_grad(%g: tensor<4x6x40xFT>, %i: tensor<4x6xi32> {test.range = [-2.0, 12.0]}) -> tensor<11x40xFT> attributes {exec.kernel, test.tolerance = 8.0} {
  %y = nn.gather_grad %g[%i] axis 0 : (tensor<4x6x40xFT>, tensor<4x6xi32>) -> tensor<11x40xFT>
  return %y : tensor<11x40xFT>
}
func.func @gather_grad_tall(%g: tensor<30x5xFT>, %i: tensor<30xi32> {test.range = [0.0, 299.0]}) -> tensor<300x5xFT> attributes {exec.kernel, test.tolerance = 8.0} {
  %y = nn.gather_grad %g[%i] axis 0 : (tensor<30x5xFT>, tensor<30xi32>) -> tensor<300x5xFT>
  return %y : tensor<300x5xFT>
}
func.func @gather_grad_middle(%g: tensor<3x7x20xFT>, %i: tensor<7xi32> {test.range = [-2.0, 12.0]}) -> tensor<3x11x20xFT> attributes {exec.kernel, test.tolerance = 8.0} {
  %y = nn.gather_grad %g[%i] axis 1 : (tensor<3x7x20xFT>, tensor<7xi32>) -> tensor<3x11x20xFT>
  return %y : tensor<3x11x20xFT>
}
func.func @gather_grad_batch(%g: tensor<100x3xFT>, %i: tensor<100x3xi32> {test.range = [-2.0, 9.0]}) -> tensor<100x8xFT> attributes {exec.kernel, test.tolerance = 8.0} {
  %y = nn.gather_grad %g[%i] axis 1 batch 1 : (tensor<100x3xFT>, tensor<100x3xi32>) -> tensor<100x8xFT>
  return %y : tensor<100x8xFT>
}
func.func @gather_grad_of_computed(%g: tensor<30x50xFT>, %s: tensor<FT>, %i: tensor<30xi32> {test.range = [0.0, 9.0]}) -> tensor<10x50xFT> attributes {exec.kernel, test.tolerance = 16.0} {
  %h = nn.mul %g, %s : (tensor<30x50xFT>, tensor<FT>) -> tensor<30x50xFT>
  %y = nn.gather_grad %h[%i] axis 0 : (tensor<30x50xFT>, tensor<30xi32>) -> tensor<10x50xFT>
  return %y : tensor<10x50xFT>
}
func.func @top_k(%x: tensor<3x7x20xFT>) -> (tensor<3x7x4xFT>, tensor<3x7x4xi32>) attributes {exec.kernel} {
  %v, %i = nn.top_k %x k 4 : (tensor<3x7x20xFT>) -> (tensor<3x7x4xFT>, tensor<3x7x4xi32>)
  return %v, %i : tensor<3x7x4xFT>, tensor<3x7x4xi32>
}
func.func @top_k_ties(%x: tensor<30x20xFT>) -> (tensor<30x20xFT>, tensor<30x20xi32>) attributes {exec.kernel, test.special} {
  %v, %i = nn.top_k %x k 20 : (tensor<30x20xFT>) -> (tensor<30x20xFT>, tensor<30x20xi32>)
  return %v, %i : tensor<30x20xFT>, tensor<30x20xi32>
}
func.func @top_k_of_computed(%x: tensor<30x20xf32>) -> (tensor<30x2xf32>, tensor<30x2xi32>) attributes {exec.kernel} {
  %y = nn.softmax %x dim 1 : tensor<30x20xf32>
  %v, %i = nn.top_k %y k 2 : (tensor<30x20xf32>) -> (tensor<30x2xf32>, tensor<30x2xi32>)
  return %v, %i : tensor<30x2xf32>, tensor<30x2xi32>
}
func.func @uniform(%key: tensor<4xi32> {test.range = [-2147483648.0, 2147483647.0]}, %stream: tensor<i32>) -> tensor<3x5x33xFT> attributes {exec.kernel} {
  %u = nn.random uniform %key, %stream : (tensor<4xi32>, tensor<i32>) -> tensor<3x5x33xFT>
  return %u : tensor<3x5x33xFT>
}
func.func @uniform_samples(%key: tensor<4xi32> {test.range = [-2147483648.0, 2147483647.0]}, %stream: tensor<i32>) -> tensor<3x5x33xf32> attributes {exec.kernel, test.tolerance = 0.0} {
  %u = nn.random uniform %key, %stream sample_dim : (tensor<4xi32>, tensor<i32>) -> tensor<3x5x33xf32>
  return %u : tensor<3x5x33xf32>
}
func.func @normal(%key: tensor<4xi32> {test.range = [-2147483648.0, 2147483647.0]}, %stream: tensor<i32>) -> tensor<3000xf32> attributes {exec.kernel, test.tolerance = 2.0} {
  %u = nn.random normal %key, %stream : (tensor<4xi32>, tensor<i32>) -> tensor<3000xf32>
  return %u : tensor<3000xf32>
}
func.func @normal_scaled(%key: tensor<4xi32> {test.range = [-2147483648.0, 2147483647.0]}, %stream: tensor<i32>) -> tensor<30x7xFT> attributes {exec.kernel, test.tolerance = 2.0} {
  %u = nn.random normal %key, %stream : (tensor<4xi32>, tensor<i32>) -> tensor<30x7xFT>
  %c = nn.constant dense<0.02> : tensor<FT>
  %v = nn.mul %u, %c : (tensor<30x7xFT>, tensor<FT>) -> tensor<30x7xFT>
  return %v : tensor<30x7xFT>
}
func.func @dropout(%x: tensor<6x50xFT>, %key: tensor<4xi32>, %stream: tensor<i32>) -> tensor<6x50xFT> attributes {exec.kernel} {
  %u = nn.dropout %x, %key, %stream rate 0.3 : (tensor<6x50xFT>, tensor<4xi32>, tensor<i32>) -> tensor<6x50xFT>
  return %u : tensor<6x50xFT>
}
func.func @random_bits(%key: tensor<4xi32> {test.range = [0.0, 2000000000.0]}, %stream: tensor<i32>) -> tensor<3x5x33xi32> attributes {exec.kernel} {
  %u = nn.random bits %key, %stream sample_dim : (tensor<4xi32>, tensor<i32>) -> tensor<3x5x33xi32>
  return %u : tensor<3x5x33xi32>
}
