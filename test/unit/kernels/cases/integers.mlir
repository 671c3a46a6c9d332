// Integers, flags and casts.
func.func @arithmetic(%a: tensor<4x35xi32> {test.range = [-2147483648.0, 2147483647.0]}, %b: tensor<4x35xi32> {test.range = [-2147483648.0, 2147483647.0]}) -> (tensor<4x35xi32>, tensor<4x35xi32>, tensor<4x35xi32>) attributes {exec.kernel} {
  %s = nn.add %a, %b : tensor<4x35xi32>
  %d = nn.sub %a, %b : tensor<4x35xi32>
  %n = nn.neg %d : tensor<4x35xi32>
  %m = nn.abs %b : tensor<4x35xi32>
  return %s, %n, %m : tensor<4x35xi32>, tensor<4x35xi32>, tensor<4x35xi32>
}
func.func @product(%a: tensor<4x35xi32> {test.range = [-40000.0, 40000.0]}, %b: tensor<4x35xi32> {test.range = [-40000.0, 40000.0]}) -> tensor<4x35xi32> attributes {exec.kernel} {
  %s = nn.mul %a, %b : tensor<4x35xi32>
  return %s : tensor<4x35xi32>
}
func.func @divide(%a: tensor<4x35xi32> {test.range = [-100.0, 100.0]}, %b: tensor<4x35xi32>) -> tensor<4x35xi32> attributes {exec.kernel} {
  %s = nn.div %a, %b : tensor<4x35xi32>
  return %s : tensor<4x35xi32>
}
func.func @divide_least(%b: tensor<35xi32>) -> tensor<35xi32> attributes {exec.kernel} {
  %a = nn.constant dense<-2147483648> : tensor<i32>
  %s = nn.div %a, %b : (tensor<i32>, tensor<35xi32>) -> tensor<35xi32>
  return %s : tensor<35xi32>
}
func.func @extremes(%a: tensor<4x35xi32>, %b: tensor<4x35xi32>) -> (tensor<4x35xi32>, tensor<4x35xi32>) attributes {exec.kernel} {
  %s = nn.max %a, %b : tensor<4x35xi32>
  %t = nn.min %a, %b : tensor<4x35xi32>
  return %s, %t : tensor<4x35xi32>, tensor<4x35xi32>
}
func.func @compare_all(%a: tensor<4x35xi32>, %b: tensor<4x35xi32>) -> (tensor<4x35xi1>, tensor<4x35xi1>, tensor<4x35xi1>, tensor<4x35xi1>, tensor<4x35xi1>, tensor<4x35xi1>) attributes {exec.kernel} {
  %0 = nn.compare eq %a, %b : (tensor<4x35xi32>, tensor<4x35xi32>) -> tensor<4x35xi1>
  %1 = nn.compare ne %a, %b : (tensor<4x35xi32>, tensor<4x35xi32>) -> tensor<4x35xi1>
  %2 = nn.compare lt %a, %b : (tensor<4x35xi32>, tensor<4x35xi32>) -> tensor<4x35xi1>
  %3 = nn.compare le %a, %b : (tensor<4x35xi32>, tensor<4x35xi32>) -> tensor<4x35xi1>
  %4 = nn.compare gt %a, %b : (tensor<4x35xi32>, tensor<4x35xi32>) -> tensor<4x35xi1>
  %5 = nn.compare ge %a, %b : (tensor<4x35xi32>, tensor<4x35xi32>) -> tensor<4x35xi1>
  return %0, %1, %2, %3, %4, %5 : tensor<4x35xi1>, tensor<4x35xi1>, tensor<4x35xi1>, tensor<4x35xi1>, tensor<4x35xi1>, tensor<4x35xi1>
}
func.func @logic(%a: tensor<4x35xi1>, %b: tensor<35xi1>) -> (tensor<4x35xi1>, tensor<4x35xi1>, tensor<4x35xi1>) attributes {exec.kernel} {
  %0 = nn.and %a, %b : (tensor<4x35xi1>, tensor<35xi1>) -> tensor<4x35xi1>
  %1 = nn.or %a, %b : (tensor<4x35xi1>, tensor<35xi1>) -> tensor<4x35xi1>
  %2 = nn.not %a : tensor<4x35xi1>
  return %0, %1, %2 : tensor<4x35xi1>, tensor<4x35xi1>, tensor<4x35xi1>
}
func.func @flags_through(%a: tensor<3x4x5xi1>) -> tensor<5x3x4xi1> attributes {exec.kernel} {
  %0 = nn.transpose %a [2, 0, 1] : (tensor<3x4x5xi1>) -> tensor<5x3x4xi1>
  return %0 : tensor<5x3x4xi1>
}
func.func @select_flags(%a: tensor<35xi1>, %b: tensor<35xi1>, %c: tensor<35xi1>) -> tensor<35xi1> attributes {exec.kernel} {
  %0 = nn.select %a, %b, %c : (tensor<35xi1>, tensor<35xi1>, tensor<35xi1>) -> tensor<35xi1>
  return %0 : tensor<35xi1>
}
func.func @cast_f32_i32(%a: tensor<4x35xf32> {test.range = [-5.0e9, 5.0e9]}) -> tensor<4x35xi32> attributes {exec.kernel, test.special} {
  %0 = nn.cast %a : tensor<4x35xf32> -> tensor<4x35xi32>
  return %0 : tensor<4x35xi32>
}
func.func @cast_small_i32(%a: tensor<4x35xFT>) -> tensor<4x35xi32> attributes {exec.kernel, test.special} {
  %0 = nn.cast %a : tensor<4x35xFT> -> tensor<4x35xi32>
  return %0 : tensor<4x35xi32>
}
func.func @cast_to_i8(%a: tensor<4x35xFT> {test.range = [-200.0, 200.0]}) -> tensor<4x35xi8> attributes {exec.kernel, test.special} {
  %0 = nn.cast %a : tensor<4x35xFT> -> tensor<4x35xi8>
  return %0 : tensor<4x35xi8>
}
func.func @cast_to_i1(%a: tensor<4x35xFT>) -> tensor<4x35xi1> attributes {exec.kernel, test.special} {
  %0 = nn.cast %a : tensor<4x35xFT> -> tensor<4x35xi1>
  return %0 : tensor<4x35xi1>
}
func.func @cast_integers(%a: tensor<35xi32> {test.range = [-300.0, 300.0]}) -> (tensor<35xi8>, tensor<35xi1>, tensor<35xi32>, tensor<35xf32>) attributes {exec.kernel} {
  %0 = nn.cast %a : tensor<35xi32> -> tensor<35xi8>
  %1 = nn.cast %a : tensor<35xi32> -> tensor<35xi1>
  %2 = nn.cast %0 : tensor<35xi8> -> tensor<35xi32>
  %3 = nn.cast %1 : tensor<35xi1> -> tensor<35xf32>
  return %0, %1, %2, %3 : tensor<35xi8>, tensor<35xi1>, tensor<35xi32>, tensor<35xf32>
}
func.func @cast_flags(%a: tensor<35xi1>) -> (tensor<35xi32>, tensor<35xFT>) attributes {exec.kernel} {
  %0 = nn.cast %a : tensor<35xi1> -> tensor<35xi32>
  %1 = nn.cast %a : tensor<35xi1> -> tensor<35xFT>
  return %0, %1 : tensor<35xi32>, tensor<35xFT>
}
func.func @cast_from_i32(%a: tensor<35xi32> {test.range = [-60000.0, 60000.0]}) -> tensor<35xFT> attributes {exec.kernel} {
  %0 = nn.cast %a : tensor<35xi32> -> tensor<35xFT>
  return %0 : tensor<35xFT>
}
func.func @cast_f32_to(%a: tensor<9x35xf32> {test.range = [-70000.0, 70000.0]}) -> tensor<9x35xFT> attributes {exec.kernel, test.special, test.tolerance = 0.0} {
  %0 = nn.cast %a : tensor<9x35xf32> -> tensor<9x35xFT>
  return %0 : tensor<9x35xFT>
}
func.func @cast_f64_to(%a: tensor<9x35xf64>) -> tensor<9x35xFT> attributes {exec.kernel, test.special, test.tolerance = 0.0} {
  %0 = nn.cast %a : tensor<9x35xf64> -> tensor<9x35xFT>
  return %0 : tensor<9x35xFT>
}
func.func @cast_bf16_to(%a: tensor<9x35xbf16>) -> tensor<9x35xFT> attributes {exec.kernel, test.special, test.tolerance = 0.0} {
  %0 = nn.cast %a : tensor<9x35xbf16> -> tensor<9x35xFT>
  return %0 : tensor<9x35xFT>
}
func.func @cast_f16_to(%a: tensor<9x35xf16>) -> tensor<9x35xFT> attributes {exec.kernel, test.special, test.tolerance = 0.0} {
  %0 = nn.cast %a : tensor<9x35xf16> -> tensor<9x35xFT>
  return %0 : tensor<9x35xFT>
}
func.func @cast_to_e4m3(%a: tensor<90x35xFT> {test.range = [-500.0, 500.0]}) -> tensor<90x35xf8E4M3FN> attributes {exec.kernel, test.special, test.tolerance = 0.0} {
  %0 = nn.cast %a : tensor<90x35xFT> -> tensor<90x35xf8E4M3FN>
  return %0 : tensor<90x35xf8E4M3FN>
}
func.func @cast_to_e4m3_small(%a: tensor<90x35xFT> {test.range = [-0.03, 0.03]}) -> tensor<90x35xf8E4M3FN> attributes {exec.kernel, test.special, test.tolerance = 0.0} {
  %0 = nn.cast %a : tensor<90x35xFT> -> tensor<90x35xf8E4M3FN>
  return %0 : tensor<90x35xf8E4M3FN>
}
func.func @cast_to_e5m2(%a: tensor<90x35xFT> {test.range = [-60000.0, 60000.0]}) -> tensor<90x35xf8E5M2> attributes {exec.kernel, test.special, test.tolerance = 0.0} {
  %0 = nn.cast %a : tensor<90x35xFT> -> tensor<90x35xf8E5M2>
  return %0 : tensor<90x35xf8E5M2>
}
func.func @cast_to_e5m2_small(%a: tensor<90x35xFT> {test.range = [-0.0002, 0.0002]}) -> tensor<90x35xf8E5M2> attributes {exec.kernel, test.special, test.tolerance = 0.0} {
  %0 = nn.cast %a : tensor<90x35xFT> -> tensor<90x35xf8E5M2>
  return %0 : tensor<90x35xf8E5M2>
}
func.func @cast_from_e4m3(%a: tensor<90x35xf8E4M3FN> {test.range = [-448.0, 448.0]}) -> tensor<90x35xFT> attributes {exec.kernel, test.special, test.tolerance = 0.0} {
  %0 = nn.cast %a : tensor<90x35xf8E4M3FN> -> tensor<90x35xFT>
  return %0 : tensor<90x35xFT>
}
func.func @cast_from_e5m2(%a: tensor<90x35xf8E5M2> {test.range = [-50000.0, 50000.0]}) -> tensor<90x35xFT> attributes {exec.kernel, test.special, test.tolerance = 0.0} {
  %0 = nn.cast %a : tensor<90x35xf8E5M2> -> tensor<90x35xFT>
  return %0 : tensor<90x35xFT>
}
