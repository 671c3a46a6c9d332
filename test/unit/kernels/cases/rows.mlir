// Rows that are stored past the caches where they are large: of whole lines, and
// not; two results beside each other.
func.func @softmax_lines(%x: tensor<12x160xFT>) -> tensor<12x160xFT> attributes {exec.kernel} {
  %y = nn.softmax %x dim 1 : tensor<12x160xFT>
  return %y : tensor<12x160xFT>
}
func.func @softmax_odd(%x: tensor<7x533xFT>) -> tensor<7x533xFT> attributes {exec.kernel} {
  %y = nn.softmax %x dim 1 : tensor<7x533xFT>
  return %y : tensor<7x533xFT>
}
func.func @residual_norm(%x: tensor<6x533xFT>, %r: tensor<6x533xFT>, %s: tensor<533xFT>, %b: tensor<533xFT>) -> (tensor<6x533xFT>, tensor<6x533xFT>) attributes {exec.kernel} {
  %h = nn.add %x, %r : tensor<6x533xFT>
  %y = nn.layer_norm %h, %s, %b eps 1.0e-5 : (tensor<6x533xFT>, tensor<533xFT>, tensor<533xFT>) -> tensor<6x533xFT>
  return %h, %y : tensor<6x533xFT>, tensor<6x533xFT>
}
func.func @loss_and_gradient(%x: tensor<6x533xf32>, %t: tensor<6xi32> {test.range = [-1.0, 540.0]}, %g: tensor<6xf32>) -> (tensor<6xf32>, tensor<6x533xf32>) attributes {exec.kernel} {
  %l, %e = nn.cross_entropy %x, %t : (tensor<6x533xf32>, tensor<6xi32>) -> (tensor<6xf32>, tensor<6xf32>)
  %d = nn.cross_entropy_grad %x, %t, %e grad %g : (tensor<6x533xf32>, tensor<6xi32>, tensor<6xf32>, tensor<6xf32>) -> tensor<6x533xf32>
  return %l, %d : tensor<6xf32>, tensor<6x533xf32>
}
