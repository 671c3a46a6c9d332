// Every elementwise op, alone, on odd sizes.
func.func @neg(%x: tensor<3x37xFT>) -> tensor<3x37xFT> attributes {exec.kernel, test.special} {
  %y = nn.neg %x : tensor<3x37xFT>
  return %y : tensor<3x37xFT>
}
func.func @abs_kernel(%x: tensor<3x37xFT>) -> tensor<3x37xFT> attributes {exec.kernel, test.special} {
  %y = nn.abs %x : tensor<3x37xFT>
  return %y : tensor<3x37xFT>
}
func.func @exp_kernel(%x: tensor<3x37xFT> {test.range = [-20.0, 10.0]}) -> tensor<3x37xFT> attributes {exec.kernel, test.special} {
  %y = nn.exp %x : tensor<3x37xFT>
  return %y : tensor<3x37xFT>
}
func.func @log_kernel(%x: tensor<3x37xFT> {test.range = [0.0, 10.0]}) -> tensor<3x37xFT> attributes {exec.kernel, test.special} {
  %y = nn.log %x : tensor<3x37xFT>
  return %y : tensor<3x37xFT>
}
func.func @tanh_kernel(%x: tensor<5x35xFT>) -> tensor<5x35xFT> attributes {exec.kernel, test.special} {
  %y = nn.tanh %x : tensor<5x35xFT>
  return %y : tensor<5x35xFT>
}
func.func @erf_kernel(%x: tensor<5x35xFT>) -> tensor<5x35xFT> attributes {exec.kernel, test.special} {
  %y = nn.erf %x : tensor<5x35xFT>
  return %y : tensor<5x35xFT>
}
func.func @sqrt_kernel(%x: tensor<5x35xFT> {test.range = [0.0, 9.0]}) -> tensor<5x35xFT> attributes {exec.kernel, test.special} {
  %y = nn.sqrt %x : tensor<5x35xFT>
  return %y : tensor<5x35xFT>
}
func.func @rsqrt(%x: tensor<5x35xFT> {test.range = [0.1, 9.0]}) -> tensor<5x35xFT> attributes {exec.kernel} {
  %y = nn.rsqrt %x : tensor<5x35xFT>
  return %y : tensor<5x35xFT>
}
func.func @sigmoid(%x: tensor<35xFT>) -> tensor<35xFT> attributes {exec.kernel, test.special} {
  %y = nn.sigmoid %x : tensor<35xFT>
  return %y : tensor<35xFT>
}
func.func @sin_kernel(%x: tensor<35xFT> {test.range = [-1000.0, 1000.0]}) -> tensor<35xFT> attributes {exec.kernel, test.special} {
  %y = nn.sin %x : tensor<35xFT>
  return %y : tensor<35xFT>
}
func.func @cos_kernel(%x: tensor<35xFT> {test.range = [-1000.0, 1000.0]}) -> tensor<35xFT> attributes {exec.kernel, test.special} {
  %y = nn.cos %x : tensor<35xFT>
  return %y : tensor<35xFT>
}
func.func @relu(%x: tensor<35xFT>) -> tensor<35xFT> attributes {exec.kernel, test.special} {
  %y = nn.relu %x : tensor<35xFT>
  return %y : tensor<35xFT>
}
func.func @silu(%x: tensor<35xFT>) -> tensor<35xFT> attributes {exec.kernel, test.tolerance = 2.0} {
  %y = nn.silu %x : tensor<35xFT>
  return %y : tensor<35xFT>
}
func.func @gelu(%x: tensor<4x35xFT>) -> tensor<4x35xFT> attributes {exec.kernel} {
  %y = nn.gelu %x : tensor<4x35xFT>
  return %y : tensor<4x35xFT>
}
func.func @gelu_tanh(%x: tensor<4x35xFT>) -> tensor<4x35xFT> attributes {exec.kernel} {
  %y = nn.gelu_tanh %x : tensor<4x35xFT>
  return %y : tensor<4x35xFT>
}
func.func @add(%a: tensor<4x35xFT>, %b: tensor<4x35xFT>) -> tensor<4x35xFT> attributes {exec.kernel, test.special} {
  %y = nn.add %a, %b : tensor<4x35xFT>
  return %y : tensor<4x35xFT>
}
func.func @sub_row(%a: tensor<4x35xFT>, %b: tensor<35xFT>) -> tensor<4x35xFT> attributes {exec.kernel} {
  %y = nn.sub %a, %b : (tensor<4x35xFT>, tensor<35xFT>) -> tensor<4x35xFT>
  return %y : tensor<4x35xFT>
}
func.func @mul_column(%a: tensor<4x35xFT>, %b: tensor<4x1xFT>) -> tensor<4x35xFT> attributes {exec.kernel} {
  %y = nn.mul %a, %b : (tensor<4x35xFT>, tensor<4x1xFT>) -> tensor<4x35xFT>
  return %y : tensor<4x35xFT>
}
func.func @div_outer(%a: tensor<5x1x3x1xFT>, %b: tensor<7x1x33xFT> {test.range = [0.5, 3.0]}) -> tensor<5x7x3x33xFT> attributes {exec.kernel} {
  %y = nn.div %a, %b : (tensor<5x1x3x1xFT>, tensor<7x1x33xFT>) -> tensor<5x7x3x33xFT>
  return %y : tensor<5x7x3x33xFT>
}
func.func @max(%a: tensor<4x35xFT>, %b: tensor<4x35xFT>) -> tensor<4x35xFT> attributes {exec.kernel, test.special} {
  %y = nn.max %a, %b : tensor<4x35xFT>
  return %y : tensor<4x35xFT>
}
func.func @min(%a: tensor<4x35xFT>, %b: tensor<4x35xFT>) -> tensor<4x35xFT> attributes {exec.kernel, test.special} {
  %y = nn.min %a, %b : tensor<4x35xFT>
  return %y : tensor<4x35xFT>
}
func.func @pow_kernel(%a: tensor<40x35xFT>, %b: tensor<40x35xFT>) -> tensor<40x35xFT> attributes {exec.kernel, test.special} {
  %y = nn.pow %a, %b : tensor<40x35xFT>
  return %y : tensor<40x35xFT>
}
func.func @pow_positive(%a: tensor<40x35xFT> {test.range = [0.01, 9.0]}, %b: tensor<40x35xFT>) -> tensor<40x35xFT> attributes {exec.kernel} {
  %y = nn.pow %a, %b : tensor<40x35xFT>
  return %y : tensor<40x35xFT>
}
func.func @scalars(%a: tensor<FT>, %b: tensor<FT>) -> tensor<FT> attributes {exec.kernel} {
  %c = nn.add %a, %b : tensor<FT>
  %y = nn.mul %c, %b : tensor<FT>
  return %y : tensor<FT>
}
func.func @units(%a: tensor<1x1xFT>, %b: tensor<1xFT>) -> tensor<1x1xFT> attributes {exec.kernel} {
  %y = nn.add %a, %b : (tensor<1x1xFT>, tensor<1xFT>) -> tensor<1x1xFT>
  return %y : tensor<1x1xFT>
}
func.func @compare_eq(%a: tensor<4x35xFT>, %b: tensor<4x35xFT>) -> tensor<4x35xi1> attributes {exec.kernel, test.special} {
  %y = nn.compare eq %a, %b : (tensor<4x35xFT>, tensor<4x35xFT>) -> tensor<4x35xi1>
  return %y : tensor<4x35xi1>
}
func.func @compare_ne(%a: tensor<4x35xFT>, %b: tensor<35xFT>) -> tensor<4x35xi1> attributes {exec.kernel, test.special} {
  %y = nn.compare ne %a, %b : (tensor<4x35xFT>, tensor<35xFT>) -> tensor<4x35xi1>
  return %y : tensor<4x35xi1>
}
func.func @compare_lt(%a: tensor<4x35xFT>, %b: tensor<4x35xFT>) -> tensor<4x35xi1> attributes {exec.kernel, test.special} {
  %y = nn.compare lt %a, %b : (tensor<4x35xFT>, tensor<4x35xFT>) -> tensor<4x35xi1>
  return %y : tensor<4x35xi1>
}
func.func @compare_le(%a: tensor<4x35xFT>, %b: tensor<4x35xFT>) -> tensor<4x35xi1> attributes {exec.kernel, test.special} {
  %y = nn.compare le %a, %b : (tensor<4x35xFT>, tensor<4x35xFT>) -> tensor<4x35xi1>
  return %y : tensor<4x35xi1>
}
func.func @compare_gt(%a: tensor<4x35xFT>, %b: tensor<4x35xFT>) -> tensor<4x35xi1> attributes {exec.kernel, test.special} {
  %y = nn.compare gt %a, %b : (tensor<4x35xFT>, tensor<4x35xFT>) -> tensor<4x35xi1>
  return %y : tensor<4x35xi1>
}
func.func @compare_ge(%a: tensor<4x35xFT>, %b: tensor<4x35xFT>) -> tensor<4x35xi1> attributes {exec.kernel, test.special} {
  %y = nn.compare ge %a, %b : (tensor<4x35xFT>, tensor<4x35xFT>) -> tensor<4x35xi1>
  return %y : tensor<4x35xi1>
}
func.func @select(%c: tensor<4x35xi1>, %a: tensor<4x35xFT>, %b: tensor<FT>) -> tensor<4x35xFT> attributes {exec.kernel, test.special} {
  %y = nn.select %c, %a, %b : (tensor<4x35xi1>, tensor<4x35xFT>, tensor<FT>) -> tensor<4x35xFT>
  return %y : tensor<4x35xFT>
}
func.func @chain(%a: tensor<2000x3xFT>, %b: tensor<3xFT>) -> (tensor<2000x3xFT>, tensor<2000x3xFT>) attributes {exec.kernel, test.tolerance = 4.0} {
  %c = nn.add %a, %b : (tensor<2000x3xFT>, tensor<3xFT>) -> tensor<2000x3xFT>
  %d = nn.tanh %c : tensor<2000x3xFT>
  %e = nn.mul %d, %a : tensor<2000x3xFT>
  return %d, %e : tensor<2000x3xFT>, tensor<2000x3xFT>
}
func.func @long(%a: tensor<5000xFT>, %b: tensor<5000xFT>) -> tensor<5000xFT> attributes {exec.kernel} {
  %c = nn.mul %a, %b : tensor<5000xFT>
  return %c : tensor<5000xFT>
}
func.func @long_rows(%a: tensor<2x9001xFT>, %b: tensor<9001xFT>) -> tensor<2x9001xFT> attributes {exec.kernel} {
  %c = nn.mul %a, %b : (tensor<2x9001xFT>, tensor<9001xFT>) -> tensor<2x9001xFT>
  return %c : tensor<2x9001xFT>
}
