// Reductions over rows, columns, both, and what may stand beside them.
func.func @sum_rows(%x: tensor<5x7x100xFT>) -> tensor<5x7xFT> attributes {exec.kernel, test.tolerance = 8.0} {
  %y = nn.reduce sum %x dims [2] : (tensor<5x7x100xFT>) -> tensor<5x7xFT>
  return %y : tensor<5x7xFT>
}
func.func @sum_long_rows(%x: tensor<3x5001xFT>) -> tensor<3xFT> attributes {exec.kernel, test.tolerance = 30.0} {
  %y = nn.reduce sum %x dims [1] : (tensor<3x5001xFT>) -> tensor<3xFT>
  return %y : tensor<3xFT>
}
func.func @sum_columns(%x: tensor<200x100xFT>) -> tensor<100xFT> attributes {exec.kernel, test.tolerance = 10.0} {
  %y = nn.reduce sum %x dims [0] : (tensor<200x100xFT>) -> tensor<100xFT>
  return %y : tensor<100xFT>
}
func.func @sum_columns_deep(%x: tensor<3x5x30x33xFT>) -> tensor<33xFT> attributes {exec.kernel, test.tolerance = 10.0} {
  %y = nn.reduce sum %x dims [0, 1, 2] : (tensor<3x5x30x33xFT>) -> tensor<33xFT>
  return %y : tensor<33xFT>
}
func.func @sum_middle(%x: tensor<3x50x20xFT>) -> tensor<3x20xFT> attributes {exec.kernel, test.tolerance = 8.0} {
  %y = nn.reduce sum %x dims [1] : (tensor<3x50x20xFT>) -> tensor<3x20xFT>
  return %y : tensor<3x20xFT>
}
func.func @sum_outer_and_inner(%x: tensor<4x8x50xFT>) -> tensor<8xFT> attributes {exec.kernel, test.tolerance = 8.0} {
  %y = nn.reduce sum %x dims [0, 2] : (tensor<4x8x50xFT>) -> tensor<8xFT>
  return %y : tensor<8xFT>
}
func.func @sum_all(%x: tensor<4x8x50xFT>) -> tensor<FT> attributes {exec.kernel, test.tolerance = 16.0} {
  %y = nn.reduce sum %x dims [0, 1, 2] : (tensor<4x8x50xFT>) -> tensor<FT>
  return %y : tensor<FT>
}
func.func @sum_none(%x: tensor<4x8xFT>) -> tensor<4x8xFT> attributes {exec.kernel} {
  %y = nn.reduce sum %x dims [] : (tensor<4x8xFT>) -> tensor<4x8xFT>
  return %y : tensor<4x8xFT>
}
func.func @sum_unit(%x: tensor<4x1x8xFT>) -> tensor<4x8xFT> attributes {exec.kernel} {
  %y = nn.reduce sum %x dims [1] : (tensor<4x1x8xFT>) -> tensor<4x8xFT>
  return %y : tensor<4x8xFT>
}
func.func @max_rows(%x: tensor<5x100xFT>) -> tensor<5x1xFT> attributes {exec.kernel} {
  %y = nn.reduce max %x dims [1] keep : (tensor<5x100xFT>) -> tensor<5x1xFT>
  return %y : tensor<5x1xFT>
}
func.func @max_special(%x: tensor<50x5xFT>) -> tensor<50xFT> attributes {exec.kernel, test.special} {
  %y = nn.reduce max %x dims [1] : (tensor<50x5xFT>) -> tensor<50xFT>
  return %y : tensor<50xFT>
}
func.func @min_special(%x: tensor<50x40xFT>) -> tensor<50xFT> attributes {exec.kernel, test.special} {
  %y = nn.reduce min %x dims [1] : (tensor<50x40xFT>) -> tensor<50xFT>
  return %y : tensor<50xFT>
}
func.func @min_columns(%x: tensor<50x40xFT>) -> tensor<1x40xFT> attributes {exec.kernel} {
  %y = nn.reduce min %x dims [0] keep : (tensor<50x40xFT>) -> tensor<1x40xFT>
  return %y : tensor<1x40xFT>
}
func.func @mean_rows(%x: tensor<5x100xFT>) -> tensor<5xFT> attributes {exec.kernel} {
  %y = nn.reduce mean %x dims [1] : (tensor<5x100xFT>) -> tensor<5xFT>
  return %y : tensor<5xFT>
}
func.func @squares(%x: tensor<5x100xFT> {test.range = [-1.0, 1.0]}) -> tensor<5xFT> attributes {exec.kernel, test.tolerance = 4.0} {
  %y = nn.reduce sum_of_squares %x dims [1] : (tensor<5x100xFT>) -> tensor<5xFT>
  return %y : tensor<5xFT>
}
func.func @squares_columns(%x: tensor<50x100xFT> {test.range = [-1.0, 1.0]}) -> tensor<100xFT> attributes {exec.kernel, test.tolerance = 4.0} {
  %y = nn.reduce sum_of_squares %x dims [0] : (tensor<50x100xFT>) -> tensor<100xFT>
  return %y : tensor<100xFT>
}
func.func @integers(%x: tensor<5x100xi32>) -> (tensor<5xi32>, tensor<5xi32>, tensor<5xi32>, tensor<5xi32>) attributes {exec.kernel} {
  %0 = nn.reduce sum %x dims [1] : (tensor<5x100xi32>) -> tensor<5xi32>
  %1 = nn.reduce max %x dims [1] : (tensor<5x100xi32>) -> tensor<5xi32>
  %2 = nn.reduce min %x dims [1] : (tensor<5x100xi32>) -> tensor<5xi32>
  %3 = nn.reduce sum_of_squares %x dims [1] : (tensor<5x100xi32>) -> tensor<5xi32>
  return %0, %1, %2, %3 : tensor<5xi32>, tensor<5xi32>, tensor<5xi32>, tensor<5xi32>
}
func.func @normalised_and_statistics(%x: tensor<6x5x70xFT>) -> (tensor<6x5x70xFT>, tensor<6x5xFT>) attributes {exec.kernel, test.tolerance = 8.0} {
  %m = nn.reduce mean %x dims [2] keep : (tensor<6x5x70xFT>) -> tensor<6x5x1xFT>
  %c = nn.sub %x, %m : (tensor<6x5x70xFT>, tensor<6x5x1xFT>) -> tensor<6x5x70xFT>
  %s = nn.reduce max %c dims [2] : (tensor<6x5x70xFT>) -> tensor<6x5xFT>
  return %c, %s : tensor<6x5x70xFT>, tensor<6x5xFT>
}
func.func @column_sum_added(%x: tensor<70x130xFT>, %acc: tensor<130xFT>) -> tensor<130xFT> attributes {exec.kernel, test.tolerance = 8.0} {
  %m = nn.reduce sum %x dims [0] : (tensor<70x130xFT>) -> tensor<130xFT>
  %c = nn.add %acc, %m : tensor<130xFT>
  return %c : tensor<130xFT>
}
func.func @column_sum_of_products(%x: tensor<7x10x70xFT>, %g: tensor<7x10x70xFT>) -> tensor<70xFT> attributes {exec.kernel, test.tolerance = 16.0} {
  %p = nn.mul %x, %g : tensor<7x10x70xFT>
  %m = nn.reduce sum %p dims [0, 1] : (tensor<7x10x70xFT>) -> tensor<70xFT>
  return %m : tensor<70xFT>
}
// Sums of blocks of rows, which go through them as they lie.
func.func @sum_blocks(%x: tensor<640x100xFT>) -> tensor<32x100xFT> attributes {exec.kernel, test.tolerance = 8.0} {
  %0 = nn.reshape %x : tensor<640x100xFT> -> tensor<32x20x100xFT>
  %y = nn.reduce sum %0 dims [1] : (tensor<32x20x100xFT>) -> tensor<32x100xFT>
  return %y : tensor<32x100xFT>
}
func.func @sum_short_blocks(%x: tensor<2x9x5x70xFT>) -> tensor<2x9x70xFT> attributes {exec.kernel, test.tolerance = 8.0} {
  %y = nn.reduce sum %x dims [2] : (tensor<2x9x5x70xFT>) -> tensor<2x9x70xFT>
  return %y : tensor<2x9x70xFT>
}
func.func @max_blocks_special(%x: tensor<16x16x64xFT>) -> tensor<16x64xFT> attributes {exec.kernel, test.special} {
  %y = nn.reduce max %x dims [1] : (tensor<16x16x64xFT>) -> tensor<16x64xFT>
  return %y : tensor<16x64xFT>
}
func.func @norm_weights_in_blocks(%x: tensor<8x48x72xFT>, %m: tensor<8x48x1xFT>, %dy: tensor<8x48x72xFT>) -> (tensor<24x72xFT>, tensor<24x72xFT>) attributes {exec.kernel, test.tolerance = 16.0} {
  %c = nn.sub %x, %m : (tensor<8x48x72xFT>, tensor<8x48x1xFT>) -> tensor<8x48x72xFT>
  %p = nn.mul %dy, %c : tensor<8x48x72xFT>
  %0 = nn.reshape %p : tensor<8x48x72xFT> -> tensor<24x16x72xFT>
  %1 = nn.reduce sum %0 dims [1] : (tensor<24x16x72xFT>) -> tensor<24x72xFT>
  %2 = nn.reshape %dy : tensor<8x48x72xFT> -> tensor<24x16x72xFT>
  %3 = nn.reduce sum %2 dims [1] : (tensor<24x16x72xFT>) -> tensor<24x72xFT>
  return %1, %3 : tensor<24x72xFT>, tensor<24x72xFT>
}
func.func @two_levels(%x: tensor<4x6x20xFT>) -> tensor<4x6x20xFT> attributes {exec.kernel, test.tolerance = 16.0} {
  %a = nn.reduce max %x dims [2] keep : (tensor<4x6x20xFT>) -> tensor<4x6x1xFT>
  %b = nn.reduce min %x dims [1, 2] keep : (tensor<4x6x20xFT>) -> tensor<4x1x1xFT>
  %c = nn.sub %x, %a : (tensor<4x6x20xFT>, tensor<4x6x1xFT>) -> tensor<4x6x20xFT>
  %d = nn.mul %c, %b : (tensor<4x6x20xFT>, tensor<4x1x1xFT>) -> tensor<4x6x20xFT>
  return %d : tensor<4x6x20xFT>
}
func.func @whole_used_by_all(%x: tensor<6x20xFT>) -> tensor<6x20xFT> attributes {exec.kernel, test.tolerance = 16.0} {
  %a = nn.reduce max %x dims [0, 1] : (tensor<6x20xFT>) -> tensor<FT>
  %c = nn.sub %x, %a : (tensor<6x20xFT>, tensor<FT>) -> tensor<6x20xFT>
  return %c : tensor<6x20xFT>
}
func.func @einsum_matmul(%a: tensor<5x9x20xFT>, %b: tensor<20x33xFT>) -> tensor<5x9x33xFT> attributes {exec.kernel, test.tolerance = 20.0} {
  %y = nn.einsum "bsd,df->bsf"(%a, %b) : (tensor<5x9x20xFT>, tensor<20x33xFT>) -> tensor<5x9x33xFT>
  return %y : tensor<5x9x33xFT>
}
func.func @einsum_transposed(%a: tensor<9x20xFT>, %b: tensor<33x20xFT>) -> tensor<9x33xFT> attributes {exec.kernel, test.tolerance = 20.0} {
  %y = nn.einsum "sd,vd->sv"(%a, %b) : (tensor<9x20xFT>, tensor<33x20xFT>) -> tensor<9x33xFT>
  return %y : tensor<9x33xFT>
}
func.func @einsum_batch(%a: tensor<3x9x4x20xFT>, %b: tensor<3x7x4x20xFT>) -> tensor<3x4x9x7xFT> attributes {exec.kernel, test.tolerance = 20.0} {
  %y = nn.einsum "bshd,bthd->bhst"(%a, %b) : (tensor<3x9x4x20xFT>, tensor<3x7x4x20xFT>) -> tensor<3x4x9x7xFT>
  return %y : tensor<3x4x9x7xFT>
}
func.func @einsum_one(%a: tensor<3x9x20xFT>) -> tensor<9xFT> attributes {exec.kernel, test.tolerance = 20.0} {
  %y = nn.einsum "abc->b"(%a) : (tensor<3x9x20xFT>) -> tensor<9xFT>
  return %y : tensor<9xFT>
}
func.func @einsum_outer(%a: tensor<9xFT>, %b: tensor<33xFT>) -> tensor<9x33xFT> attributes {exec.kernel} {
  %y = nn.einsum "a,b->ab"(%a, %b) : (tensor<9xFT>, tensor<33xFT>) -> tensor<9x33xFT>
  return %y : tensor<9x33xFT>
}
func.func @einsum_dot(%a: tensor<99xFT>, %b: tensor<99xFT>) -> tensor<FT> attributes {exec.kernel, test.tolerance = 40.0} {
  %y = nn.einsum "a,a->"(%a, %b) : (tensor<99xFT>, tensor<99xFT>) -> tensor<FT>
  return %y : tensor<FT>
}
func.func @einsum_lone_letters(%a: tensor<9x5xFT>, %b: tensor<33x2xFT>) -> tensor<33x9xFT> attributes {exec.kernel, test.tolerance = 20.0} {
  %y = nn.einsum "ac,bd->ba"(%a, %b) : (tensor<9x5xFT>, tensor<33x2xFT>) -> tensor<33x9xFT>
  return %y : tensor<33x9xFT>
}
func.func @einsum_wide(%a: tensor<9x50xbf16>, %b: tensor<50x33xbf16>) -> tensor<9x33xf32> attributes {exec.kernel, test.tolerance = 20.0} {
  %y = nn.einsum "ac,cb->ab"(%a, %b) : (tensor<9x50xbf16>, tensor<50x33xbf16>) -> tensor<9x33xf32>
  return %y : tensor<9x33xf32>
}
