// Data movement.
func.func @reshape(%x: tensor<6x35xFT>) -> tensor<2x3x5x7xFT> attributes {exec.kernel} {
  %y = nn.reshape %x : tensor<6x35xFT> -> tensor<2x3x5x7xFT>
  return %y : tensor<2x3x5x7xFT>
}
func.func @reshape_odd(%x: tensor<6x35xFT>, %z: tensor<30xFT>) -> tensor<7x30xFT> attributes {exec.kernel} {
  %y = nn.reshape %x : tensor<6x35xFT> -> tensor<7x30xFT>
  %w = nn.add %y, %z : (tensor<7x30xFT>, tensor<30xFT>) -> tensor<7x30xFT>
  return %w : tensor<7x30xFT>
}
func.func @reshape_broadcast(%x: tensor<6x35xFT>, %z: tensor<35xFT>) -> tensor<7x30xFT> attributes {exec.kernel} {
  %w = nn.add %x, %z : (tensor<6x35xFT>, tensor<35xFT>) -> tensor<6x35xFT>
  %y = nn.reshape %w : tensor<6x35xFT> -> tensor<7x30xFT>
  return %y : tensor<7x30xFT>
}
func.func @reshape_scalar(%x: tensor<1x1xFT>) -> tensor<FT> attributes {exec.kernel} {
  %y = nn.reshape %x : tensor<1x1xFT> -> tensor<FT>
  return %y : tensor<FT>
}
func.func @transpose(%x: tensor<37x21xFT>) -> tensor<21x37xFT> attributes {exec.kernel} {
  %y = nn.transpose %x [1, 0] : (tensor<37x21xFT>) -> tensor<21x37xFT>
  return %y : tensor<21x37xFT>
}
func.func @transpose_batch(%x: tensor<3x34x50xFT>) -> tensor<3x50x34xFT> attributes {exec.kernel} {
  %y = nn.transpose %x [0, 2, 1] : (tensor<3x34x50xFT>) -> tensor<3x50x34xFT>
  return %y : tensor<3x50x34xFT>
}
func.func @transpose_heads(%x: tensor<3x10x4x20xFT>) -> tensor<3x4x10x20xFT> attributes {exec.kernel} {
  %y = nn.transpose %x [0, 2, 1, 3] : (tensor<3x10x4x20xFT>) -> tensor<3x4x10x20xFT>
  return %y : tensor<3x4x10x20xFT>
}
func.func @transpose_all(%x: tensor<3x5x4x7xFT>) -> tensor<7x4x5x3xFT> attributes {exec.kernel} {
  %y = nn.transpose %x [3, 2, 1, 0] : (tensor<3x5x4x7xFT>) -> tensor<7x4x5x3xFT>
  return %y : tensor<7x4x5x3xFT>
}
func.func @transpose_and_add(%x: tensor<37x21xFT>, %b: tensor<21x37xFT>) -> tensor<21x37xFT> attributes {exec.kernel} {
  %y = nn.transpose %x [1, 0] : (tensor<37x21xFT>) -> tensor<21x37xFT>
  %z = nn.add %y, %b : tensor<21x37xFT>
  return %z : tensor<21x37xFT>
}
func.func @broadcast(%x: tensor<4x35xFT>) -> tensor<4x6x35xFT> attributes {exec.kernel} {
  %y = nn.broadcast %x dims [0, 2] : tensor<4x35xFT> -> tensor<4x6x35xFT>
  return %y : tensor<4x6x35xFT>
}
func.func @broadcast_inner(%x: tensor<4x1xFT>) -> tensor<3x4x35xFT> attributes {exec.kernel} {
  %y = nn.broadcast %x dims [1, 2] : tensor<4x1xFT> -> tensor<3x4x35xFT>
  return %y : tensor<3x4x35xFT>
}
func.func @broadcast_scalar(%x: tensor<FT>) -> tensor<3x35xFT> attributes {exec.kernel} {
  %y = nn.broadcast %x dims [] : tensor<FT> -> tensor<3x35xFT>
  return %y : tensor<3x35xFT>
}
func.func @slice(%x: tensor<6x70xFT>) -> tensor<3x40xFT> attributes {exec.kernel} {
  %y = nn.slice %x offsets [1, 7] sizes [3, 40] : (tensor<6x70xFT>) -> tensor<3x40xFT>
  return %y : tensor<3x40xFT>
}
func.func @slice_strided(%x: tensor<6x70xFT>) -> tensor<3x23xFT> attributes {exec.kernel} {
  %y = nn.slice %x offsets [1, 2] sizes [3, 23] strides [2, 3] : (tensor<6x70xFT>) -> tensor<3x23xFT>
  return %y : tensor<3x23xFT>
}
func.func @pad(%x: tensor<4x30xFT>) -> tensor<6x39xFT> attributes {exec.kernel} {
  %y = nn.pad %x low [1, 5] high [1, 4] : (tensor<4x30xFT>) -> tensor<6x39xFT>
  return %y : tensor<6x39xFT>
}
func.func @pad_value(%x: tensor<4x30xFT>) -> tensor<4x50xFT> attributes {exec.kernel} {
  %y = nn.pad %x low [0, 0] high [0, 20] value -1.5 : (tensor<4x30xFT>) -> tensor<4x50xFT>
  return %y : tensor<4x50xFT>
}
func.func @pad_interior(%x: tensor<4x20xFT>) -> tensor<12x62xFT> attributes {exec.kernel} {
  %y = nn.pad %x low [1, 2] high [1, 2] interior [2, 2] value 3.0 : (tensor<4x20xFT>) -> tensor<12x62xFT>
  return %y : tensor<12x62xFT>
}
func.func @concatenate_inner(%a: tensor<4x20xFT>, %b: tensor<4x3xFT>, %c: tensor<4x33xFT>) -> tensor<4x56xFT> attributes {exec.kernel} {
  %y = nn.concatenate %a, %b, %c dim 1 : (tensor<4x20xFT>, tensor<4x3xFT>, tensor<4x33xFT>) -> tensor<4x56xFT>
  return %y : tensor<4x56xFT>
}
func.func @concatenate_outer(%a: tensor<4x20xFT>, %b: tensor<1x20xFT>, %c: tensor<3x20xFT>) -> tensor<8x20xFT> attributes {exec.kernel} {
  %y = nn.concatenate %a, %b, %c dim 0 : (tensor<4x20xFT>, tensor<1x20xFT>, tensor<3x20xFT>) -> tensor<8x20xFT>
  return %y : tensor<8x20xFT>
}
func.func @concatenate_many(%a: tensor<2x5xFT>) -> tensor<2x50xFT> attributes {exec.kernel} {
  %y = nn.concatenate %a, %a, %a, %a, %a, %a, %a, %a, %a, %a dim 1 : (tensor<2x5xFT>, tensor<2x5xFT>, tensor<2x5xFT>, tensor<2x5xFT>, tensor<2x5xFT>, tensor<2x5xFT>, tensor<2x5xFT>, tensor<2x5xFT>, tensor<2x5xFT>, tensor<2x5xFT>) -> tensor<2x50xFT>
  return %y : tensor<2x50xFT>
}
func.func @concatenate_reduced(%a: tensor<4x20xFT>, %b: tensor<4x33xFT>) -> tensor<4xFT> attributes {exec.kernel, test.tolerance = 8.0} {
  %y = nn.concatenate %a, %b dim 1 : (tensor<4x20xFT>, tensor<4x33xFT>) -> tensor<4x53xFT>
  %s = nn.reduce sum %y dims [1] : (tensor<4x53xFT>) -> tensor<4xFT>
  return %s : tensor<4xFT>
}
func.func @concatenate_reduced_columns(%a: tensor<4x20xFT>, %b: tensor<9x20xFT>) -> tensor<20xFT> attributes {exec.kernel, test.tolerance = 8.0} {
  %y = nn.concatenate %a, %b dim 0 : (tensor<4x20xFT>, tensor<9x20xFT>) -> tensor<13x20xFT>
  %s = nn.reduce sum %y dims [0] : (tensor<13x20xFT>) -> tensor<20xFT>
  return %s : tensor<20xFT>
}
func.func @iota_rows() -> tensor<50x3xFT> attributes {exec.kernel} {
  %y = nn.iota dim 0 : tensor<50x3xFT>
  return %y : tensor<50x3xFT>
}
func.func @iota_columns() -> tensor<3x50xFT> attributes {exec.kernel} {
  %y = nn.iota dim 1 : tensor<3x50xFT>
  return %y : tensor<3x50xFT>
}
func.func @iota_integers() -> tensor<3x50xi32> attributes {exec.kernel} {
  %y = nn.iota dim 1 : tensor<3x50xi32>
  return %y : tensor<3x50xi32>
}
func.func @constant_splat() -> tensor<3x50xFT> attributes {exec.kernel} {
  %y = nn.constant dense<2.5> : tensor<3x50xFT>
  return %y : tensor<3x50xFT>
}
func.func @constant_dense(%x: tensor<3x5xFT>) -> tensor<3x5xFT> attributes {exec.kernel} {
  %c = nn.constant dense<[1.0, 2.0, -3.0, 4.0, 0.5]> : tensor<5xFT>
  %y = nn.mul %x, %c : (tensor<3x5xFT>, tensor<5xFT>) -> tensor<3x5xFT>
  return %y : tensor<3x5xFT>
}
func.func @constant_flags() -> tensor<5xi1> attributes {exec.kernel} {
  %c = nn.constant dense<[true, false, false, true, true]> : tensor<5xi1>
  return %c : tensor<5xi1>
}
func.func @identity(%x: tensor<3x5xFT>) -> tensor<3x5xFT> attributes {exec.kernel} {
  return %x : tensor<3x5xFT>
}
// Elements of one byte are moved like others.
func.func @transpose_e4m3(%a: tensor<13x37xf8E4M3FN> {test.range = [-400.0, 400.0]}) -> tensor<37x13xf8E4M3FN> attributes {exec.kernel, test.special, test.tolerance = 0.0} {
  %0 = nn.transpose %a [1, 0] : (tensor<13x37xf8E4M3FN>) -> tensor<37x13xf8E4M3FN>
  return %0 : tensor<37x13xf8E4M3FN>
}
func.func @pad_e4m3(%a: tensor<7x70xf8E4M3FN> {test.range = [-400.0, 400.0]}) -> tensor<9x77xf8E4M3FN> attributes {exec.kernel, test.special, test.tolerance = 0.0} {
  %0 = nn.pad %a low [0, 3] high [2, 4] : (tensor<7x70xf8E4M3FN>) -> tensor<9x77xf8E4M3FN>
  return %0 : tensor<9x77xf8E4M3FN>
}
func.func @slice_e4m3(%a: tensor<9x77xf8E4M3FN> {test.range = [-400.0, 400.0]}) -> tensor<7x35xf8E4M3FN> attributes {exec.kernel, test.special, test.tolerance = 0.0} {
  %0 = nn.slice %a offsets [1, 3] sizes [7, 35] strides [1, 2] : (tensor<9x77xf8E4M3FN>) -> tensor<7x35xf8E4M3FN>
  return %0 : tensor<7x35xf8E4M3FN>
}
func.func @transpose_e5m2(%a: tensor<13x37xf8E5M2> {test.range = [-400.0, 400.0]}) -> tensor<37x13xf8E5M2> attributes {exec.kernel, test.special, test.tolerance = 0.0} {
  %0 = nn.transpose %a [1, 0] : (tensor<13x37xf8E5M2>) -> tensor<37x13xf8E5M2>
  return %0 : tensor<37x13xf8E5M2>
}
func.func @pad_e5m2(%a: tensor<7x70xf8E5M2> {test.range = [-400.0, 400.0]}) -> tensor<9x77xf8E5M2> attributes {exec.kernel, test.special, test.tolerance = 0.0} {
  %0 = nn.pad %a low [0, 3] high [2, 4] : (tensor<7x70xf8E5M2>) -> tensor<9x77xf8E5M2>
  return %0 : tensor<9x77xf8E5M2>
}
func.func @slice_e5m2(%a: tensor<9x77xf8E5M2> {test.range = [-400.0, 400.0]}) -> tensor<7x35xf8E5M2> attributes {exec.kernel, test.special, test.tolerance = 0.0} {
  %0 = nn.slice %a offsets [1, 3] sizes [7, 35] strides [1, 2] : (tensor<9x77xf8E5M2>) -> tensor<7x35xf8E5M2>
  return %0 : tensor<7x35xf8E5M2>
}
func.func @reshape_concatenate_e4m3(%a: tensor<6x35xf8E4M3FN> {test.range = [-400.0, 400.0]}, %b: tensor<15x7xf8E4M3FN> {test.range = [-400.0, 400.0]}) -> tensor<45x7xf8E4M3FN> attributes {exec.kernel, test.special, test.tolerance = 0.0} {
  %0 = nn.reshape %a : tensor<6x35xf8E4M3FN> -> tensor<30x7xf8E4M3FN>
  %1 = nn.concatenate %0, %b dim 0 : (tensor<30x7xf8E4M3FN>, tensor<15x7xf8E4M3FN>) -> tensor<45x7xf8E4M3FN>
  return %1 : tensor<45x7xf8E4M3FN>
}
func.func @gather_select_e5m2(%t: tensor<9x40xf8E5M2> {test.range = [-400.0, 400.0]}, %i: tensor<5xi32> {test.range = [-2.0, 10.0]}, %m: tensor<5x40xi1>, %b: tensor<40xf8E5M2> {test.range = [-400.0, 400.0]}) -> tensor<5x40xf8E5M2> attributes {exec.kernel, test.special, test.tolerance = 0.0} {
  %0 = nn.gather %t[%i] axis 0 : (tensor<9x40xf8E5M2>, tensor<5xi32>) -> tensor<5x40xf8E5M2>
  %1 = nn.select %m, %0, %b : (tensor<5x40xi1>, tensor<5x40xf8E5M2>, tensor<40xf8E5M2>) -> tensor<5x40xf8E5M2>
  return %1 : tensor<5x40xf8E5M2>
}
func.func @broadcast_e8m0(%a: tensor<5xf8E8M0FNU> {test.range = [0.1, 100.0]}) -> tensor<5x32xf8E8M0FNU> attributes {exec.kernel, test.tolerance = 0.0} {
  %0 = nn.broadcast %a dims [0] : tensor<5xf8E8M0FNU> -> tensor<5x32xf8E8M0FNU>
  return %0 : tensor<5x32xf8E8M0FNU>
}
