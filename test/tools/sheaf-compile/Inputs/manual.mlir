// A step with a part that is written for each device.
dist.mesh @mesh ["tp" = 2]
func.func @step(%x: tensor<4x8xf32>) -> tensor<4xf32> {
  %y = dist.manual %x in [#dist.sharding<[{}, {"tp"}]>] out [#dist.sharding<[{}]>] {
  ^bb0(%part: tensor<4x4xf32>):
    %0 = nn.reduce sum %part dims [1] : (tensor<4x4xf32>) -> tensor<4xf32, #dist.partial<["tp"], sum>>
    %1 = dist.all_reduce sum %0 axes ["tp"] : (tensor<4xf32, #dist.partial<["tp"], sum>>) -> tensor<4xf32>
    dist.yield %1 : tensor<4xf32>
  } : (tensor<4x8xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
