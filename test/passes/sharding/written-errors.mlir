// RUN: sheaf-opt %s --verify-diagnostics --dist-apply-strategy

dist.mesh @mesh ["dp" = 2, "tp" = 2]

func.func @loss(
    // expected-note@+1 {{the other is here}}
    %w: tensor<8x8xf32> {nn.param = #nn.param<"w", axes = [embed, embed], init = constant(0)>,
                         dist.sharding = #dist.sharding<[{"tp"}, {}]>}) -> tensor<8x8xf32> {
  return %w : tensor<8x8xf32>
}
func.func @logits(
    // expected-error@+1 {{parameter w has the sharding #dist.sharding<[{}, {"tp"}]> in @logits and #dist.sharding<[{"tp"}, {}]> in @loss; entries share the buffer, so write the same in both, or in one only}}
    %w: tensor<8x8xf32> {nn.param = #nn.param<"w", axes = [embed, embed], init = constant(0)>,
                         dist.sharding = #dist.sharding<[{}, {"tp"}]>}) -> tensor<8x8xf32> {
  return %w : tensor<8x8xf32>
}
