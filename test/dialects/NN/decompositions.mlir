// RUN: sheaf-opt %s --split-input-file --nn-decompose --cse | FileCheck %s

// The gradient of relu at 0 is 0, so that it is no nn.max; NaN passes.
// CHECK-LABEL: func.func @relu(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<{{[^,]*}}>
// CHECK-NEXT: %[[V0:.*]] = nn.constant dense<0.000000e+00> : tensor<f32>
// CHECK-NEXT: %[[V1:.*]] = nn.compare le %[[X]], %[[V0]] : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xi1>
// CHECK-NEXT: %[[V2:.*]] = nn.select %[[V1]], %[[V0]], %[[X]] : (tensor<4x8xi1>, tensor<f32>, tensor<4x8xf32>) -> tensor<4x8xf32>
// CHECK-NEXT: return %[[V2]]
func.func @relu(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = nn.relu %x : tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// -----

// Low precision is widened at the entry and rounded once at the exit.
// CHECK-LABEL: func.func @silu_bf16(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<{{[^,]*}}>
// CHECK-NEXT: %[[V0:.*]] = nn.cast %[[X]] : tensor<4x8xbf16> -> tensor<4x8xf32>
// CHECK-NEXT: %[[V1:.*]] = nn.sigmoid %[[V0]] : tensor<4x8xf32>
// CHECK-NEXT: %[[V2:.*]] = nn.mul %[[V0]], %[[V1]] : tensor<4x8xf32>
// CHECK-NEXT: %[[V3:.*]] = nn.cast %[[V2]] : tensor<4x8xf32> -> tensor<4x8xbf16>
// CHECK-NEXT: return %[[V3]]
func.func @silu_bf16(%x: tensor<4x8xbf16>) -> tensor<4x8xbf16> {
  %0 = nn.silu %x : tensor<4x8xbf16>
  return %0 : tensor<4x8xbf16>
}

// -----

// CHECK-LABEL: func.func @gelu(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<{{[^,]*}}>
// CHECK-NEXT: %[[V0:.*]] = nn.constant dense<0.707106769> : tensor<f32>
// CHECK-NEXT: %[[V1:.*]] = nn.mul %[[X]], %[[V0]] : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
// CHECK-NEXT: %[[V2:.*]] = nn.erf %[[V1]] : tensor<4xf32>
// CHECK-NEXT: %[[V3:.*]] = nn.constant dense<5.000000e-01> : tensor<f32>
// CHECK-NEXT: %[[V4:.*]] = nn.mul %[[X]], %[[V3]] : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
// CHECK-NEXT: %[[V5:.*]] = nn.constant dense<1.000000e+00> : tensor<f32>
// CHECK-NEXT: %[[V6:.*]] = nn.add %[[V2]], %[[V5]] : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
// CHECK-NEXT: %[[V7:.*]] = nn.mul %[[V4]], %[[V6]] : tensor<4xf32>
// CHECK-NEXT: return %[[V7]]
func.func @gelu(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = nn.gelu %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// CHECK-LABEL: func.func @gelu_tanh(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<{{[^,]*}}>
// CHECK-NEXT: %[[V0:.*]] = nn.mul %[[X]], %[[X]] : tensor<4xf64>
// CHECK-NEXT: %[[V1:.*]] = nn.constant dense<0.071354816272600249> : tensor<f64>
// CHECK-NEXT: %[[V2:.*]] = nn.mul %[[V0]], %[[V1]] : (tensor<4xf64>, tensor<f64>) -> tensor<4xf64>
// CHECK-NEXT: %[[V3:.*]] = nn.constant dense<1.5957691216057308> : tensor<f64>
// CHECK-NEXT: %[[V4:.*]] = nn.add %[[V2]], %[[V3]] : (tensor<4xf64>, tensor<f64>) -> tensor<4xf64>
// CHECK-NEXT: %[[V5:.*]] = nn.mul %[[X]], %[[V4]] : tensor<4xf64>
// CHECK-NEXT: %[[V6:.*]] = nn.sigmoid %[[V5]] : tensor<4xf64>
// CHECK-NEXT: %[[V7:.*]] = nn.mul %[[X]], %[[V6]] : tensor<4xf64>
// CHECK-NEXT: return %[[V7]]
func.func @gelu_tanh(%x: tensor<4xf64>) -> tensor<4xf64> {
  %0 = nn.gelu_tanh %x : tensor<4xf64>
  return %0 : tensor<4xf64>
}

// -----

// CHECK-LABEL: func.func @embedding(
// CHECK-SAME: %[[T:[a-z0-9]+]]: tensor<{{[^,]*}}>, %[[I:[a-z0-9]+]]: tensor<{{[^,]*}}>
// CHECK-NEXT: %[[V0:.*]] = nn.gather %[[T]][%[[I]]] axis 0 : (tensor<256x64xf32>, tensor<4x8xi32>) -> tensor<4x8x64xf32>
// CHECK-NEXT: return %[[V0]]
func.func @embedding(%t: tensor<256x64xf32>, %i: tensor<4x8xi32>) -> tensor<4x8x64xf32> {
  %0 = nn.embedding %t[%i] : (tensor<256x64xf32>, tensor<4x8xi32>) -> tensor<4x8x64xf32>
  return %0 : tensor<4x8x64xf32>
}

// -----

// The random numbers are f32 in every precision: all drop the same elements.
// CHECK-LABEL: func.func @dropout_bf16(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<{{[^,]*}}>, %[[K:[a-z0-9]+]]: tensor<{{[^,]*}}>, %[[S:[a-z0-9]+]]: tensor<{{[^,]*}}>
// CHECK-NEXT: %[[V0:.*]] = nn.random uniform %[[K]], %[[S]] sample_dim : (tensor<4xi32>, tensor<i32>) -> tensor<4x8xf32>
// CHECK-NEXT: %[[V1:.*]] = nn.constant dense<2.500000e-01> : tensor<f32>
// CHECK-NEXT: %[[V2:.*]] = nn.compare ge %[[V0]], %[[V1]] : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xi1>
// CHECK-NEXT: %[[V3:.*]] = nn.cast %[[X]] : tensor<4x8xbf16> -> tensor<4x8xf32>
// CHECK-NEXT: %[[V4:.*]] = nn.constant dense<7.500000e-01> : tensor<f32>
// CHECK-NEXT: %[[V5:.*]] = nn.div %[[V3]], %[[V4]] : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
// CHECK-NEXT: %[[V6:.*]] = nn.cast %[[V5]] : tensor<4x8xf32> -> tensor<4x8xbf16>
// CHECK-NEXT: %[[V7:.*]] = nn.constant dense<0.000000e+00> : tensor<bf16>
// CHECK-NEXT: %[[V8:.*]] = nn.select %[[V2]], %[[V6]], %[[V7]] : (tensor<4x8xi1>, tensor<4x8xbf16>, tensor<bf16>) -> tensor<4x8xbf16>
// CHECK-NEXT: return %[[V8]]
func.func @dropout_bf16(%x: tensor<4x8xbf16>, %k: tensor<4xi32>, %s: tensor<i32>) -> tensor<4x8xbf16> {
  %0 = nn.dropout %x, %k, %s rate 0.25 : (tensor<4x8xbf16>, tensor<4xi32>, tensor<i32>) -> tensor<4x8xbf16>
  return %0 : tensor<4x8xbf16>
}

// -----

// A slice of only -infinity gives zeros: its maximum and its sum are replaced.
// CHECK-LABEL: func.func @softmax(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<{{[^,]*}}>
// CHECK-NEXT: %[[V0:.*]] = nn.reduce max %[[X]] dims [1] keep : (tensor<4x8x3xf32>) -> tensor<4x1x3xf32>
// CHECK-NEXT: %[[V1:.*]] = nn.constant dense<0xFF800000> : tensor<f32>
// CHECK-NEXT: %[[V2:.*]] = nn.compare eq %[[V0]], %[[V1]] : (tensor<4x1x3xf32>, tensor<f32>) -> tensor<4x1x3xi1>
// CHECK-NEXT: %[[V3:.*]] = nn.constant dense<0.000000e+00> : tensor<f32>
// CHECK-NEXT: %[[V4:.*]] = nn.select %[[V2]], %[[V3]], %[[V0]] : (tensor<4x1x3xi1>, tensor<f32>, tensor<4x1x3xf32>) -> tensor<4x1x3xf32>
// CHECK-NEXT: %[[V5:.*]] = nn.sub %[[X]], %[[V4]] : (tensor<4x8x3xf32>, tensor<4x1x3xf32>) -> tensor<4x8x3xf32>
// CHECK-NEXT: %[[V6:.*]] = nn.exp %[[V5]] : tensor<4x8x3xf32>
// CHECK-NEXT: %[[V7:.*]] = nn.reduce sum %[[V6]] dims [1] keep : (tensor<4x8x3xf32>) -> tensor<4x1x3xf32>
// CHECK-NEXT: %[[V8:.*]] = nn.compare eq %[[V7]], %[[V3]] : (tensor<4x1x3xf32>, tensor<f32>) -> tensor<4x1x3xi1>
// CHECK-NEXT: %[[V9:.*]] = nn.constant dense<1.000000e+00> : tensor<f32>
// CHECK-NEXT: %[[V10:.*]] = nn.select %[[V8]], %[[V9]], %[[V7]] : (tensor<4x1x3xi1>, tensor<f32>, tensor<4x1x3xf32>) -> tensor<4x1x3xf32>
// CHECK-NEXT: %[[V11:.*]] = nn.div %[[V6]], %[[V10]] : (tensor<4x8x3xf32>, tensor<4x1x3xf32>) -> tensor<4x8x3xf32>
// CHECK-NEXT: return %[[V11]]
func.func @softmax(%x: tensor<4x8x3xf32>) -> tensor<4x8x3xf32> {
  %0 = nn.softmax %x dim 1 : tensor<4x8x3xf32>
  return %0 : tensor<4x8x3xf32>
}

// -----

// CHECK-LABEL: func.func @layer_norm(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<{{[^,]*}}>, %[[S:[a-z0-9]+]]: tensor<{{[^,]*}}>, %[[B:[a-z0-9]+]]: tensor<{{[^,]*}}>
// CHECK-NEXT: %[[V0:.*]] = nn.reduce mean %[[X]] dims [1] keep : (tensor<4x8xf32>) -> tensor<4x1xf32>
// CHECK-NEXT: %[[V1:.*]] = nn.sub %[[X]], %[[V0]] : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
// CHECK-NEXT: %[[V2:.*]] = nn.mul %[[V1]], %[[V1]] : tensor<4x8xf32>
// CHECK-NEXT: %[[V3:.*]] = nn.reduce mean %[[V2]] dims [1] keep : (tensor<4x8xf32>) -> tensor<4x1xf32>
// CHECK-NEXT: %[[V4:.*]] = nn.constant dense<9.99999974E-6> : tensor<f32>
// CHECK-NEXT: %[[V5:.*]] = nn.add %[[V3]], %[[V4]] : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
// CHECK-NEXT: %[[V6:.*]] = nn.rsqrt %[[V5]] : tensor<4x1xf32>
// CHECK-NEXT: %[[V7:.*]] = nn.mul %[[V1]], %[[V6]] : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
// CHECK-NEXT: %[[V8:.*]] = nn.mul %[[V7]], %[[S]] : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
// CHECK-NEXT: %[[V9:.*]] = nn.add %[[V8]], %[[B]] : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
// CHECK-NEXT: return %[[V9]]
func.func @layer_norm(%x: tensor<4x8xf32>, %s: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<4x8xf32> {
  %0 = nn.layer_norm %x, %s, %b eps 1.0e-5 : (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// -----

// Scale and statistics are f32, too.
// CHECK-LABEL: func.func @rms_norm_f16(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<{{[^,]*}}>, %[[S:[a-z0-9]+]]: tensor<{{[^,]*}}>
// CHECK-NEXT: %[[V0:.*]] = nn.cast %[[X]] : tensor<4x8xf16> -> tensor<4x8xf32>
// CHECK-NEXT: %[[V1:.*]] = nn.mul %[[V0]], %[[V0]] : tensor<4x8xf32>
// CHECK-NEXT: %[[V2:.*]] = nn.reduce mean %[[V1]] dims [1] keep : (tensor<4x8xf32>) -> tensor<4x1xf32>
// CHECK-NEXT: %[[V3:.*]] = nn.constant dense<9.99999974E-6> : tensor<f32>
// CHECK-NEXT: %[[V4:.*]] = nn.add %[[V2]], %[[V3]] : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
// CHECK-NEXT: %[[V5:.*]] = nn.rsqrt %[[V4]] : tensor<4x1xf32>
// CHECK-NEXT: %[[V6:.*]] = nn.mul %[[V0]], %[[V5]] : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
// CHECK-NEXT: %[[V7:.*]] = nn.cast %[[S]] : tensor<8xf16> -> tensor<8xf32>
// CHECK-NEXT: %[[V8:.*]] = nn.mul %[[V6]], %[[V7]] : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
// CHECK-NEXT: %[[V9:.*]] = nn.cast %[[V8]] : tensor<4x8xf32> -> tensor<4x8xf16>
// CHECK-NEXT: return %[[V9]]
func.func @rms_norm_f16(%x: tensor<4x8xf16>, %s: tensor<8xf16>) -> tensor<4x8xf16> {
  %0 = nn.rms_norm %x, %s eps 1.0e-5 : (tensor<4x8xf16>, tensor<8xf16>) -> tensor<4x8xf16>
  return %0 : tensor<4x8xf16>
}

// -----

// Frequencies are known at compile time.
// CHECK-LABEL: func.func @rotary(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<{{[^,]*}}>, %[[P:[a-z0-9]+]]: tensor<{{[^,]*}}>
// CHECK-NEXT: %[[V0:.*]] = nn.constant dense<[1.000000e+00, 1.000000e-01, 0.00999999977, 1.000000e-03]> : tensor<4xf32>
// CHECK-NEXT: %[[V1:.*]] = nn.reshape %[[P]] : tensor<2x6xi32> -> tensor<2x6x1x1xi32>
// CHECK-NEXT: %[[V2:.*]] = nn.cast %[[V1]] : tensor<2x6x1x1xi32> -> tensor<2x6x1x1xf32>
// CHECK-NEXT: %[[V3:.*]] = nn.mul %[[V2]], %[[V0]] : (tensor<2x6x1x1xf32>, tensor<4xf32>) -> tensor<2x6x1x4xf32>
// CHECK-NEXT: %[[V4:.*]] = nn.cos %[[V3]] : tensor<2x6x1x4xf32>
// CHECK-NEXT: %[[V5:.*]] = nn.sin %[[V3]] : tensor<2x6x1x4xf32>
// CHECK-NEXT: %[[V6:.*]] = nn.slice %[[X]] offsets [0, 0, 0, 0] sizes [2, 6, 4, 4] : (tensor<2x6x4x8xf32>) -> tensor<2x6x4x4xf32>
// CHECK-NEXT: %[[V7:.*]] = nn.slice %[[X]] offsets [0, 0, 0, 4] sizes [2, 6, 4, 4] : (tensor<2x6x4x8xf32>) -> tensor<2x6x4x4xf32>
// CHECK-NEXT: %[[V8:.*]] = nn.mul %[[V6]], %[[V4]] : (tensor<2x6x4x4xf32>, tensor<2x6x1x4xf32>) -> tensor<2x6x4x4xf32>
// CHECK-NEXT: %[[V9:.*]] = nn.mul %[[V7]], %[[V5]] : (tensor<2x6x4x4xf32>, tensor<2x6x1x4xf32>) -> tensor<2x6x4x4xf32>
// CHECK-NEXT: %[[V10:.*]] = nn.sub %[[V8]], %[[V9]] : tensor<2x6x4x4xf32>
// CHECK-NEXT: %[[V11:.*]] = nn.mul %[[V7]], %[[V4]] : (tensor<2x6x4x4xf32>, tensor<2x6x1x4xf32>) -> tensor<2x6x4x4xf32>
// CHECK-NEXT: %[[V12:.*]] = nn.mul %[[V6]], %[[V5]] : (tensor<2x6x4x4xf32>, tensor<2x6x1x4xf32>) -> tensor<2x6x4x4xf32>
// CHECK-NEXT: %[[V13:.*]] = nn.add %[[V11]], %[[V12]] : tensor<2x6x4x4xf32>
// CHECK-NEXT: %[[V14:.*]] = nn.concatenate %[[V10]], %[[V13]] dim 3 : (tensor<2x6x4x4xf32>, tensor<2x6x4x4xf32>) -> tensor<2x6x4x8xf32>
// CHECK-NEXT: return %[[V14]]
func.func @rotary(%x: tensor<2x6x4x8xf32>, %p: tensor<2x6xi32>) -> tensor<2x6x4x8xf32> {
  %0 = nn.rotary %x, %p theta 10000.0 : (tensor<2x6x4x8xf32>, tensor<2x6xi32>) -> tensor<2x6x4x8xf32>
  return %0 : tensor<2x6x4x8xf32>
}

// -----

// Against the angle, the sine changes its sign.
// CHECK-LABEL: func.func @rotary_inverse(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<{{[^,]*}}>, %[[P:[a-z0-9]+]]: tensor<{{[^,]*}}>
// CHECK-NEXT: %[[V0:.*]] = nn.constant dense<1.000000e+00> : tensor<1xf32>
// CHECK-NEXT: %[[V1:.*]] = nn.reshape %[[P]] : tensor<6xi32> -> tensor<6x1x1xi32>
// CHECK-NEXT: %[[V2:.*]] = nn.cast %[[V1]] : tensor<6x1x1xi32> -> tensor<6x1x1xf32>
// CHECK-NEXT: %[[V3:.*]] = nn.mul %[[V2]], %[[V0]] : (tensor<6x1x1xf32>, tensor<1xf32>) -> tensor<6x1x1xf32>
// CHECK-NEXT: %[[V4:.*]] = nn.cos %[[V3]] : tensor<6x1x1xf32>
// CHECK-NEXT: %[[V5:.*]] = nn.sin %[[V3]] : tensor<6x1x1xf32>
// CHECK-NEXT: %[[V6:.*]] = nn.neg %[[V5]] : tensor<6x1x1xf32>
// CHECK-NEXT: %[[V7:.*]] = nn.slice %[[X]] offsets [0, 0, 0, 0] sizes [2, 6, 4, 1] : (tensor<2x6x4x2xf32>) -> tensor<2x6x4x1xf32>
// CHECK-NEXT: %[[V8:.*]] = nn.slice %[[X]] offsets [0, 0, 0, 1] sizes [2, 6, 4, 1] : (tensor<2x6x4x2xf32>) -> tensor<2x6x4x1xf32>
// CHECK-NEXT: %[[V9:.*]] = nn.mul %[[V7]], %[[V4]] : (tensor<2x6x4x1xf32>, tensor<6x1x1xf32>) -> tensor<2x6x4x1xf32>
// CHECK-NEXT: %[[V10:.*]] = nn.mul %[[V8]], %[[V6]] : (tensor<2x6x4x1xf32>, tensor<6x1x1xf32>) -> tensor<2x6x4x1xf32>
// CHECK-NEXT: %[[V11:.*]] = nn.sub %[[V9]], %[[V10]] : tensor<2x6x4x1xf32>
// CHECK-NEXT: %[[V12:.*]] = nn.mul %[[V8]], %[[V4]] : (tensor<2x6x4x1xf32>, tensor<6x1x1xf32>) -> tensor<2x6x4x1xf32>
// CHECK-NEXT: %[[V13:.*]] = nn.mul %[[V7]], %[[V6]] : (tensor<2x6x4x1xf32>, tensor<6x1x1xf32>) -> tensor<2x6x4x1xf32>
// CHECK-NEXT: %[[V14:.*]] = nn.add %[[V12]], %[[V13]] : tensor<2x6x4x1xf32>
// CHECK-NEXT: %[[V15:.*]] = nn.concatenate %[[V11]], %[[V14]] dim 3 : (tensor<2x6x4x1xf32>, tensor<2x6x4x1xf32>) -> tensor<2x6x4x2xf32>
// CHECK-NEXT: return %[[V15]]
func.func @rotary_inverse(%x: tensor<2x6x4x2xf32>, %p: tensor<6xi32>) -> tensor<2x6x4x2xf32> {
  %0 = nn.rotary %x, %p theta 10000.0 inverse : (tensor<2x6x4x2xf32>, tensor<6xi32>) -> tensor<2x6x4x2xf32>
  return %0 : tensor<2x6x4x2xf32>
}

// -----

// Llama 3: short waves stay, long ones are divided by 8, what is between goes smoothly.
// CHECK-LABEL: func.func @rotary_llama3(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<{{[^,]*}}>, %[[P:[a-z0-9]+]]: tensor<{{[^,]*}}>
// CHECK-NEXT: %[[V0:.*]] = nn.constant dense<[1.000000e+00, 0.0474391058, 0.00310039264]> : tensor<3xf32>
// CHECK-NEXT: %[[V1:.*]] = nn.reshape %[[P]] : tensor<2xi32> -> tensor<2x1x1xi32>
// CHECK-NEXT: %[[V2:.*]] = nn.cast %[[V1]] : tensor<2x1x1xi32> -> tensor<2x1x1xf32>
// CHECK-NEXT: %[[V3:.*]] = nn.mul %[[V2]], %[[V0]] : (tensor<2x1x1xf32>, tensor<3xf32>) -> tensor<2x1x3xf32>
// CHECK-NEXT: %[[V4:.*]] = nn.cos %[[V3]] : tensor<2x1x3xf32>
// CHECK-NEXT: %[[V5:.*]] = nn.sin %[[V3]] : tensor<2x1x3xf32>
// CHECK-NEXT: %[[V6:.*]] = nn.slice %[[X]] offsets [0, 0, 0, 0] sizes [1, 2, 1, 3] : (tensor<1x2x1x6xf32>) -> tensor<1x2x1x3xf32>
// CHECK-NEXT: %[[V7:.*]] = nn.slice %[[X]] offsets [0, 0, 0, 3] sizes [1, 2, 1, 3] : (tensor<1x2x1x6xf32>) -> tensor<1x2x1x3xf32>
// CHECK-NEXT: %[[V8:.*]] = nn.mul %[[V6]], %[[V4]] : (tensor<1x2x1x3xf32>, tensor<2x1x3xf32>) -> tensor<1x2x1x3xf32>
// CHECK-NEXT: %[[V9:.*]] = nn.mul %[[V7]], %[[V5]] : (tensor<1x2x1x3xf32>, tensor<2x1x3xf32>) -> tensor<1x2x1x3xf32>
// CHECK-NEXT: %[[V10:.*]] = nn.sub %[[V8]], %[[V9]] : tensor<1x2x1x3xf32>
// CHECK-NEXT: %[[V11:.*]] = nn.mul %[[V7]], %[[V4]] : (tensor<1x2x1x3xf32>, tensor<2x1x3xf32>) -> tensor<1x2x1x3xf32>
// CHECK-NEXT: %[[V12:.*]] = nn.mul %[[V6]], %[[V5]] : (tensor<1x2x1x3xf32>, tensor<2x1x3xf32>) -> tensor<1x2x1x3xf32>
// CHECK-NEXT: %[[V13:.*]] = nn.add %[[V11]], %[[V12]] : tensor<1x2x1x3xf32>
// CHECK-NEXT: %[[V14:.*]] = nn.concatenate %[[V10]], %[[V13]] dim 3 : (tensor<1x2x1x3xf32>, tensor<1x2x1x3xf32>) -> tensor<1x2x1x6xf32>
// CHECK-NEXT: return %[[V14]]
func.func @rotary_llama3(%x: tensor<1x2x1x6xf32>, %p: tensor<2xi32>) -> tensor<1x2x1x6xf32> {
  %0 = nn.rotary %x, %p theta 256.0 scaling <llama3, factor = 8.0, low = 1.0, high = 4.0, original = 64> : (tensor<1x2x1x6xf32>, tensor<2xi32>) -> tensor<1x2x1x6xf32>
  return %0 : tensor<1x2x1x6xf32>
}

// -----

// Without masks; the product with the values has their type, scores are f32.
// CHECK-LABEL: func.func @attention_bf16(
// CHECK-SAME: %[[Q:[a-z0-9]+]]: tensor<{{[^,]*}}>, %[[K:[a-z0-9]+]]: tensor<{{[^,]*}}>
// CHECK-NEXT: %[[V0:.*]] = nn.reshape %[[Q]] : tensor<2x6x4x8xbf16> -> tensor<2x6x2x2x8xbf16>
// CHECK-NEXT: %[[V1:.*]] = nn.einsum "bsgrd,btgd->bgrst"(%[[V0]], %[[K]]) : (tensor<2x6x2x2x8xbf16>, tensor<2x5x2x8xbf16>) -> tensor<2x2x2x6x5xf32>
// CHECK-NEXT: %[[V2:.*]] = nn.constant dense<0.353553385> : tensor<f32>
// CHECK-NEXT: %[[V3:.*]] = nn.mul %[[V1]], %[[V2]] : (tensor<2x2x2x6x5xf32>, tensor<f32>) -> tensor<2x2x2x6x5xf32>
// CHECK-NEXT: %[[V4:.*]] = nn.reduce max %[[V3]] dims [4] keep : (tensor<2x2x2x6x5xf32>) -> tensor<2x2x2x6x1xf32>
// CHECK-NEXT: %[[V5:.*]] = nn.constant dense<0xFF800000> : tensor<f32>
// CHECK-NEXT: %[[V6:.*]] = nn.compare eq %[[V4]], %[[V5]] : (tensor<2x2x2x6x1xf32>, tensor<f32>) -> tensor<2x2x2x6x1xi1>
// CHECK-NEXT: %[[V7:.*]] = nn.constant dense<0.000000e+00> : tensor<f32>
// CHECK-NEXT: %[[V8:.*]] = nn.select %[[V6]], %[[V7]], %[[V4]] : (tensor<2x2x2x6x1xi1>, tensor<f32>, tensor<2x2x2x6x1xf32>) -> tensor<2x2x2x6x1xf32>
// CHECK-NEXT: %[[V9:.*]] = nn.sub %[[V3]], %[[V8]] : (tensor<2x2x2x6x5xf32>, tensor<2x2x2x6x1xf32>) -> tensor<2x2x2x6x5xf32>
// CHECK-NEXT: %[[V10:.*]] = nn.exp %[[V9]] : tensor<2x2x2x6x5xf32>
// CHECK-NEXT: %[[V11:.*]] = nn.reduce sum %[[V10]] dims [4] keep : (tensor<2x2x2x6x5xf32>) -> tensor<2x2x2x6x1xf32>
// CHECK-NEXT: %[[V12:.*]] = nn.compare eq %[[V11]], %[[V7]] : (tensor<2x2x2x6x1xf32>, tensor<f32>) -> tensor<2x2x2x6x1xi1>
// CHECK-NEXT: %[[V13:.*]] = nn.constant dense<1.000000e+00> : tensor<f32>
// CHECK-NEXT: %[[V14:.*]] = nn.select %[[V12]], %[[V13]], %[[V11]] : (tensor<2x2x2x6x1xi1>, tensor<f32>, tensor<2x2x2x6x1xf32>) -> tensor<2x2x2x6x1xf32>
// CHECK-NEXT: %[[V15:.*]] = nn.div %[[V10]], %[[V14]] : (tensor<2x2x2x6x5xf32>, tensor<2x2x2x6x1xf32>) -> tensor<2x2x2x6x5xf32>
// CHECK-NEXT: %[[V16:.*]] = nn.cast %[[V15]] : tensor<2x2x2x6x5xf32> -> tensor<2x2x2x6x5xbf16>
// CHECK-NEXT: %[[V17:.*]] = nn.einsum "bgrst,btgd->bsgrd"(%[[V16]], %[[K]]) : (tensor<2x2x2x6x5xbf16>, tensor<2x5x2x8xbf16>) -> tensor<2x6x2x2x8xbf16>
// CHECK-NEXT: %[[V18:.*]] = nn.reshape %[[V17]] : tensor<2x6x2x2x8xbf16> -> tensor<2x6x4x8xbf16>
// CHECK-NEXT: %[[V19:.*]] = nn.log %[[V11]] : tensor<2x2x2x6x1xf32>
// CHECK-NEXT: %[[V20:.*]] = nn.add %[[V8]], %[[V19]] : tensor<2x2x2x6x1xf32>
// CHECK-NEXT: %[[V21:.*]] = nn.reshape %[[V20]] : tensor<2x2x2x6x1xf32> -> tensor<2x4x6xf32>
// CHECK-NEXT: %[[V22:.*]] = nn.transpose %[[V21]] [0, 2, 1] : (tensor<2x4x6xf32>) -> tensor<2x6x4xf32>
// CHECK-NEXT: return %[[V18]], %[[V22]]
func.func @attention_bf16(%q: tensor<2x6x4x8xbf16>, %k: tensor<2x5x2x8xbf16>) -> (tensor<2x6x4x8xbf16>, tensor<2x6x4xf32>) {
  %0, %1 = nn.attention %q, %k, %k : (tensor<2x6x4x8xbf16>, tensor<2x5x2x8xbf16>, tensor<2x5x2x8xbf16>) -> (tensor<2x6x4x8xbf16>, tensor<2x6x4xf32>)
  return %0, %1 : tensor<2x6x4x8xbf16>, tensor<2x6x4xf32>
}

// -----

// Positions end together: query i has position i + 5 - 6. A window that is wider than 32 bits is none.
// CHECK-LABEL: func.func @attention_masks(
// CHECK-SAME: %[[Q:[a-z0-9]+]]: tensor<{{[^,]*}}>, %[[K:[a-z0-9]+]]: tensor<{{[^,]*}}>, %[[B:[a-z0-9]+]]: tensor<{{[^,]*}}>, %[[D:[a-z0-9]+]]: tensor<{{[^,]*}}>, %[[E:[a-z0-9]+]]: tensor<{{[^,]*}}>
// CHECK-NEXT: %[[V0:.*]] = nn.reshape %[[Q]] : tensor<2x6x4x8xf32> -> tensor<2x6x2x2x8xf32>
// CHECK-NEXT: %[[V1:.*]] = nn.einsum "bsgrd,btgd->bgrst"(%[[V0]], %[[K]]) : (tensor<2x6x2x2x8xf32>, tensor<2x5x2x8xf32>) -> tensor<2x2x2x6x5xf32>
// CHECK-NEXT: %[[V2:.*]] = nn.constant dense<5.000000e-01> : tensor<f32>
// CHECK-NEXT: %[[V3:.*]] = nn.mul %[[V1]], %[[V2]] : (tensor<2x2x2x6x5xf32>, tensor<f32>) -> tensor<2x2x2x6x5xf32>
// CHECK-NEXT: %[[V4:.*]] = nn.reshape %[[B]] : tensor<1x4x6x5xf32> -> tensor<1x2x2x6x5xf32>
// CHECK-NEXT: %[[V5:.*]] = nn.add %[[V3]], %[[V4]] : (tensor<2x2x2x6x5xf32>, tensor<1x2x2x6x5xf32>) -> tensor<2x2x2x6x5xf32>
// CHECK-NEXT: %[[V6:.*]] = nn.iota dim 0 : tensor<6x1xi32>
// CHECK-NEXT: %[[V7:.*]] = nn.iota dim 1 : tensor<1x5xi32>
// CHECK-NEXT: %[[V8:.*]] = nn.constant dense<-1> : tensor<i32>
// CHECK-NEXT: %[[V9:.*]] = nn.add %[[V6]], %[[V8]] : (tensor<6x1xi32>, tensor<i32>) -> tensor<6x1xi32>
// CHECK-NEXT: %[[V10:.*]] = nn.compare le %[[V7]], %[[V9]] : (tensor<1x5xi32>, tensor<6x1xi32>) -> tensor<6x5xi1>
// CHECK-NEXT: %[[V11:.*]] = nn.sub %[[V9]], %[[V7]] : (tensor<6x1xi32>, tensor<1x5xi32>) -> tensor<6x5xi32>
// CHECK-NEXT: %[[V12:.*]] = nn.abs %[[V11]] : tensor<6x5xi32>
// CHECK-NEXT: %[[V13:.*]] = nn.constant dense<2147483647> : tensor<i32>
// CHECK-NEXT: %[[V14:.*]] = nn.compare lt %[[V12]], %[[V13]] : (tensor<6x5xi32>, tensor<i32>) -> tensor<6x5xi1>
// CHECK-NEXT: %[[V15:.*]] = nn.and %[[V10]], %[[V14]] : tensor<6x5xi1>
// CHECK-NEXT: %[[V16:.*]] = nn.reshape %[[D]] : tensor<2x6xi32> -> tensor<2x1x1x6x1xi32>
// CHECK-NEXT: %[[V17:.*]] = nn.reshape %[[E]] : tensor<2x5xi32> -> tensor<2x1x1x1x5xi32>
// CHECK-NEXT: %[[V18:.*]] = nn.compare eq %[[V16]], %[[V17]] : (tensor<2x1x1x6x1xi32>, tensor<2x1x1x1x5xi32>) -> tensor<2x1x1x6x5xi1>
// CHECK-NEXT: %[[V19:.*]] = nn.and %[[V15]], %[[V18]] : (tensor<6x5xi1>, tensor<2x1x1x6x5xi1>) -> tensor<2x1x1x6x5xi1>
// CHECK-NEXT: %[[V20:.*]] = nn.constant dense<0xFF800000> : tensor<f32>
// CHECK-NEXT: %[[V21:.*]] = nn.select %[[V19]], %[[V5]], %[[V20]] : (tensor<2x1x1x6x5xi1>, tensor<2x2x2x6x5xf32>, tensor<f32>) -> tensor<2x2x2x6x5xf32>
// CHECK-NEXT: %[[V22:.*]] = nn.reduce max %[[V21]] dims [4] keep : (tensor<2x2x2x6x5xf32>) -> tensor<2x2x2x6x1xf32>
// CHECK-NEXT: %[[V23:.*]] = nn.compare eq %[[V22]], %[[V20]] : (tensor<2x2x2x6x1xf32>, tensor<f32>) -> tensor<2x2x2x6x1xi1>
// CHECK-NEXT: %[[V24:.*]] = nn.constant dense<0.000000e+00> : tensor<f32>
// CHECK-NEXT: %[[V25:.*]] = nn.select %[[V23]], %[[V24]], %[[V22]] : (tensor<2x2x2x6x1xi1>, tensor<f32>, tensor<2x2x2x6x1xf32>) -> tensor<2x2x2x6x1xf32>
// CHECK-NEXT: %[[V26:.*]] = nn.sub %[[V21]], %[[V25]] : (tensor<2x2x2x6x5xf32>, tensor<2x2x2x6x1xf32>) -> tensor<2x2x2x6x5xf32>
// CHECK-NEXT: %[[V27:.*]] = nn.exp %[[V26]] : tensor<2x2x2x6x5xf32>
// CHECK-NEXT: %[[V28:.*]] = nn.reduce sum %[[V27]] dims [4] keep : (tensor<2x2x2x6x5xf32>) -> tensor<2x2x2x6x1xf32>
// CHECK-NEXT: %[[V29:.*]] = nn.compare eq %[[V28]], %[[V24]] : (tensor<2x2x2x6x1xf32>, tensor<f32>) -> tensor<2x2x2x6x1xi1>
// CHECK-NEXT: %[[V30:.*]] = nn.constant dense<1.000000e+00> : tensor<f32>
// CHECK-NEXT: %[[V31:.*]] = nn.select %[[V29]], %[[V30]], %[[V28]] : (tensor<2x2x2x6x1xi1>, tensor<f32>, tensor<2x2x2x6x1xf32>) -> tensor<2x2x2x6x1xf32>
// CHECK-NEXT: %[[V32:.*]] = nn.div %[[V27]], %[[V31]] : (tensor<2x2x2x6x5xf32>, tensor<2x2x2x6x1xf32>) -> tensor<2x2x2x6x5xf32>
// CHECK-NEXT: %[[V33:.*]] = nn.einsum "bgrst,btgd->bsgrd"(%[[V32]], %[[K]]) : (tensor<2x2x2x6x5xf32>, tensor<2x5x2x8xf32>) -> tensor<2x6x2x2x8xf32>
// CHECK-NEXT: %[[V34:.*]] = nn.reshape %[[V33]] : tensor<2x6x2x2x8xf32> -> tensor<2x6x4x8xf32>
// CHECK-NEXT: return %[[V34]]
func.func @attention_masks(%q: tensor<2x6x4x8xf32>, %k: tensor<2x5x2x8xf32>, %b: tensor<1x4x6x5xf32>, %d: tensor<2x6xi32>, %e: tensor<2x5xi32>) -> tensor<2x6x4x8xf32> {
  %0 = nn.attention %q, %k, %k bias %b documents %d, %e causal window 9999999999 scale 0.5 : (tensor<2x6x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x8xf32>, tensor<1x4x6x5xf32>, tensor<2x6xi32>, tensor<2x5xi32>) -> tensor<2x6x4x8xf32>
  return %0 : tensor<2x6x4x8xf32>
}

// -----

// Positions from a number that is known at run time only.
// CHECK-LABEL: func.func @attention_from(
// CHECK-SAME: %[[P:[a-z0-9]+]]: tensor<i32>
// CHECK: %[[I:.*]] = nn.iota dim 0 : tensor<6x1xi32>
// CHECK-NEXT: %[[J:.*]] = nn.iota dim 1 : tensor<1x8xi32>
// CHECK-NEXT: %[[Q:.*]] = nn.add %[[I]], %[[P]] : (tensor<6x1xi32>, tensor<i32>) -> tensor<6x1xi32>
// CHECK-NEXT: nn.compare le %[[J]], %[[Q]]
func.func @attention_from(%p: tensor<i32>, %q: tensor<2x6x4x8xf32>, %k: tensor<2x8x2x8xf32>) -> tensor<2x6x4x8xf32> {
  %0 = nn.attention %q, %k, %k from %p causal : (tensor<2x6x4x8xf32>, tensor<2x8x2x8xf32>, tensor<2x8x2x8xf32>, tensor<i32>) -> tensor<2x6x4x8xf32>
  return %0 : tensor<2x6x4x8xf32>
}

// -----

// A bias shared by batch and heads gets the sum over both.
// CHECK-LABEL: func.func @attention_grad(
// CHECK-SAME: %[[Q:[a-z0-9]+]]: tensor<{{[^,]*}}>, %[[K:[a-z0-9]+]]: tensor<{{[^,]*}}>, %[[B:[a-z0-9]+]]: tensor<{{[^,]*}}>, %[[L:[a-z0-9]+]]: tensor<{{[^,]*}}>
// CHECK-NEXT: %[[V0:.*]] = nn.transpose %[[L]] [0, 2, 1] : (tensor<2x6x4xf32>) -> tensor<2x4x6xf32>
// CHECK-NEXT: %[[V1:.*]] = nn.reshape %[[V0]] : tensor<2x4x6xf32> -> tensor<2x2x2x6x1xf32>
// CHECK-NEXT: %[[V2:.*]] = nn.constant dense<0xFF800000> : tensor<f32>
// CHECK-NEXT: %[[V3:.*]] = nn.compare eq %[[V1]], %[[V2]] : (tensor<2x2x2x6x1xf32>, tensor<f32>) -> tensor<2x2x2x6x1xi1>
// CHECK-NEXT: %[[V4:.*]] = nn.constant dense<0.000000e+00> : tensor<f32>
// CHECK-NEXT: %[[V5:.*]] = nn.select %[[V3]], %[[V4]], %[[V1]] : (tensor<2x2x2x6x1xi1>, tensor<f32>, tensor<2x2x2x6x1xf32>) -> tensor<2x2x2x6x1xf32>
// CHECK-NEXT: %[[V6:.*]] = nn.reshape %[[Q]] : tensor<2x6x4x8xf32> -> tensor<2x6x2x2x8xf32>
// CHECK-NEXT: %[[V7:.*]] = nn.einsum "bsgrd,btgd->bgrst"(%[[V6]], %[[K]]) : (tensor<2x6x2x2x8xf32>, tensor<2x6x2x8xf32>) -> tensor<2x2x2x6x6xf32>
// CHECK-NEXT: %[[V8:.*]] = nn.constant dense<0.353553385> : tensor<f32>
// CHECK-NEXT: %[[V9:.*]] = nn.mul %[[V7]], %[[V8]] : (tensor<2x2x2x6x6xf32>, tensor<f32>) -> tensor<2x2x2x6x6xf32>
// CHECK-NEXT: %[[V10:.*]] = nn.reshape %[[B]] : tensor<1x1x6x6xf32> -> tensor<1x1x1x6x6xf32>
// CHECK-NEXT: %[[V11:.*]] = nn.add %[[V9]], %[[V10]] : (tensor<2x2x2x6x6xf32>, tensor<1x1x1x6x6xf32>) -> tensor<2x2x2x6x6xf32>
// CHECK-NEXT: %[[V12:.*]] = nn.sub %[[V11]], %[[V5]] : (tensor<2x2x2x6x6xf32>, tensor<2x2x2x6x1xf32>) -> tensor<2x2x2x6x6xf32>
// CHECK-NEXT: %[[V13:.*]] = nn.exp %[[V12]] : tensor<2x2x2x6x6xf32>
// CHECK-NEXT: %[[V14:.*]] = nn.mul %[[Q]], %[[Q]] : tensor<2x6x4x8xf32>
// CHECK-NEXT: %[[V15:.*]] = nn.reduce sum %[[V14]] dims [3] : (tensor<2x6x4x8xf32>) -> tensor<2x6x4xf32>
// CHECK-NEXT: %[[V16:.*]] = nn.transpose %[[V15]] [0, 2, 1] : (tensor<2x6x4xf32>) -> tensor<2x4x6xf32>
// CHECK-NEXT: %[[V17:.*]] = nn.reshape %[[V16]] : tensor<2x4x6xf32> -> tensor<2x2x2x6x1xf32>
// CHECK-NEXT: %[[V18:.*]] = nn.sub %[[V17]], %[[V1]] : tensor<2x2x2x6x1xf32>
// CHECK-NEXT: %[[V19:.*]] = nn.sub %[[V7]], %[[V18]] : (tensor<2x2x2x6x6xf32>, tensor<2x2x2x6x1xf32>) -> tensor<2x2x2x6x6xf32>
// CHECK-NEXT: %[[V20:.*]] = nn.mul %[[V13]], %[[V19]] : tensor<2x2x2x6x6xf32>
// CHECK-NEXT: %[[V21:.*]] = nn.mul %[[V20]], %[[V8]] : (tensor<2x2x2x6x6xf32>, tensor<f32>) -> tensor<2x2x2x6x6xf32>
// CHECK-NEXT: %[[V22:.*]] = nn.einsum "bgrst,btgd->bsgrd"(%[[V21]], %[[K]]) : (tensor<2x2x2x6x6xf32>, tensor<2x6x2x8xf32>) -> tensor<2x6x2x2x8xf32>
// CHECK-NEXT: %[[V23:.*]] = nn.reshape %[[V22]] : tensor<2x6x2x2x8xf32> -> tensor<2x6x4x8xf32>
// CHECK-NEXT: %[[V24:.*]] = nn.einsum "bgrst,bsgrd->btgd"(%[[V21]], %[[V6]]) : (tensor<2x2x2x6x6xf32>, tensor<2x6x2x2x8xf32>) -> tensor<2x6x2x8xf32>
// CHECK-NEXT: %[[V25:.*]] = nn.einsum "bgrst,bsgrd->btgd"(%[[V13]], %[[V6]]) : (tensor<2x2x2x6x6xf32>, tensor<2x6x2x2x8xf32>) -> tensor<2x6x2x8xf32>
// CHECK-NEXT: %[[V26:.*]] = nn.reduce sum %[[V20]] dims [0, 1, 2] : (tensor<2x2x2x6x6xf32>) -> tensor<6x6xf32>
// CHECK-NEXT: %[[V27:.*]] = nn.reshape %[[V26]] : tensor<6x6xf32> -> tensor<1x1x6x6xf32>
// CHECK-NEXT: return %[[V23]], %[[V24]], %[[V25]], %[[V27]]
func.func @attention_grad(%q: tensor<2x6x4x8xf32>, %k: tensor<2x6x2x8xf32>, %b: tensor<1x1x6x6xf32>, %l: tensor<2x6x4xf32>) -> (tensor<2x6x4x8xf32>, tensor<2x6x2x8xf32>, tensor<2x6x2x8xf32>, tensor<1x1x6x6xf32>) {
  %0:4 = nn.attention_grad %q, %k, %k result %q, %l grad %q, %l bias %b : (tensor<2x6x4x8xf32>, tensor<2x6x2x8xf32>, tensor<2x6x2x8xf32>, tensor<2x6x4x8xf32>, tensor<2x6x4xf32>, tensor<2x6x4x8xf32>, tensor<2x6x4xf32>, tensor<1x1x6x6xf32>) -> (tensor<2x6x4x8xf32>, tensor<2x6x2x8xf32>, tensor<2x6x2x8xf32>, tensor<1x1x6x6xf32>)
  return %0#0, %0#1, %0#2, %0#3 : tensor<2x6x4x8xf32>, tensor<2x6x2x8xf32>, tensor<2x6x2x8xf32>, tensor<1x1x6x6xf32>
}

// -----

// The loss is taken from what the maximum was subtracted from.
// CHECK-LABEL: func.func @cross_entropy(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<{{[^,]*}}>, %[[T:[a-z0-9]+]]: tensor<{{[^,]*}}>
// CHECK-NEXT: %[[V0:.*]] = nn.cast %[[X]] : tensor<4x8xbf16> -> tensor<4x8xf32>
// CHECK-NEXT: %[[V1:.*]] = nn.reduce max %[[V0]] dims [1] keep : (tensor<4x8xf32>) -> tensor<4x1xf32>
// CHECK-NEXT: %[[V2:.*]] = nn.constant dense<0xFF800000> : tensor<f32>
// CHECK-NEXT: %[[V3:.*]] = nn.compare eq %[[V1]], %[[V2]] : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xi1>
// CHECK-NEXT: %[[V4:.*]] = nn.constant dense<0.000000e+00> : tensor<f32>
// CHECK-NEXT: %[[V5:.*]] = nn.select %[[V3]], %[[V4]], %[[V1]] : (tensor<4x1xi1>, tensor<f32>, tensor<4x1xf32>) -> tensor<4x1xf32>
// CHECK-NEXT: %[[V6:.*]] = nn.sub %[[V0]], %[[V5]] : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
// CHECK-NEXT: %[[V7:.*]] = nn.exp %[[V6]] : tensor<4x8xf32>
// CHECK-NEXT: %[[V8:.*]] = nn.reduce sum %[[V7]] dims [1] keep : (tensor<4x8xf32>) -> tensor<4x1xf32>
// CHECK-NEXT: %[[V9:.*]] = nn.reshape %[[T]] : tensor<4xi32> -> tensor<4x1xi32>
// CHECK-NEXT: %[[V10:.*]] = nn.constant dense<0> : tensor<i32>
// CHECK-NEXT: %[[V11:.*]] = nn.compare ge %[[V9]], %[[V10]] : (tensor<4x1xi32>, tensor<i32>) -> tensor<4x1xi1>
// CHECK-NEXT: %[[V12:.*]] = nn.constant dense<8> : tensor<i32>
// CHECK-NEXT: %[[V13:.*]] = nn.compare lt %[[V9]], %[[V12]] : (tensor<4x1xi32>, tensor<i32>) -> tensor<4x1xi1>
// CHECK-NEXT: %[[V14:.*]] = nn.and %[[V11]], %[[V13]] : tensor<4x1xi1>
// CHECK-NEXT: %[[V15:.*]] = nn.log %[[V8]] : tensor<4x1xf32>
// CHECK-NEXT: %[[V16:.*]] = nn.gather %[[V6]][%[[T]]] axis 1 batch 1 : (tensor<4x8xf32>, tensor<4xi32>) -> tensor<4xf32>
// CHECK-NEXT: %[[V17:.*]] = nn.reshape %[[V16]] : tensor<4xf32> -> tensor<4x1xf32>
// CHECK-NEXT: %[[V18:.*]] = nn.constant dense<8.750000e-01> : tensor<f32>
// CHECK-NEXT: %[[V19:.*]] = nn.mul %[[V17]], %[[V18]] : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
// CHECK-NEXT: %[[V20:.*]] = nn.sub %[[V15]], %[[V19]] : tensor<4x1xf32>
// CHECK-NEXT: %[[V21:.*]] = nn.reduce mean %[[V6]] dims [1] keep : (tensor<4x8xf32>) -> tensor<4x1xf32>
// CHECK-NEXT: %[[V22:.*]] = nn.constant dense<1.250000e-01> : tensor<f32>
// CHECK-NEXT: %[[V23:.*]] = nn.mul %[[V21]], %[[V22]] : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
// CHECK-NEXT: %[[V24:.*]] = nn.sub %[[V20]], %[[V23]] : tensor<4x1xf32>
// CHECK-NEXT: %[[V25:.*]] = nn.select %[[V14]], %[[V24]], %[[V4]] : (tensor<4x1xi1>, tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
// CHECK-NEXT: %[[V26:.*]] = nn.reshape %[[V25]] : tensor<4x1xf32> -> tensor<4xf32>
// CHECK-NEXT: %[[V27:.*]] = nn.add %[[V5]], %[[V15]] : tensor<4x1xf32>
// CHECK-NEXT: %[[V28:.*]] = nn.reshape %[[V27]] : tensor<4x1xf32> -> tensor<4xf32>
// CHECK-NEXT: return %[[V26]], %[[V28]]
func.func @cross_entropy(%x: tensor<4x8xbf16>, %t: tensor<4xi32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0, %1 = nn.cross_entropy %x, %t smoothing 0.125 : (tensor<4x8xbf16>, tensor<4xi32>) -> (tensor<4xf32>, tensor<4xf32>)
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// -----

// CHECK-LABEL: func.func @cross_entropy_grad(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<{{[^,]*}}>, %[[T:[a-z0-9]+]]: tensor<{{[^,]*}}>, %[[L:[a-z0-9]+]]: tensor<{{[^,]*}}>
// CHECK-NEXT: %[[V0:.*]] = nn.reshape %[[T]] : tensor<4xi32> -> tensor<4x1xi32>
// CHECK-NEXT: %[[V1:.*]] = nn.constant dense<0> : tensor<i32>
// CHECK-NEXT: %[[V2:.*]] = nn.compare ge %[[V0]], %[[V1]] : (tensor<4x1xi32>, tensor<i32>) -> tensor<4x1xi1>
// CHECK-NEXT: %[[V3:.*]] = nn.constant dense<8> : tensor<i32>
// CHECK-NEXT: %[[V4:.*]] = nn.compare lt %[[V0]], %[[V3]] : (tensor<4x1xi32>, tensor<i32>) -> tensor<4x1xi1>
// CHECK-NEXT: %[[V5:.*]] = nn.and %[[V2]], %[[V4]] : tensor<4x1xi1>
// CHECK-NEXT: %[[V6:.*]] = nn.iota dim 0 : tensor<8xi32>
// CHECK-NEXT: %[[V7:.*]] = nn.compare eq %[[V0]], %[[V6]] : (tensor<4x1xi32>, tensor<8xi32>) -> tensor<4x8xi1>
// CHECK-NEXT: %[[V8:.*]] = nn.reshape %[[L]] : tensor<4xf32> -> tensor<4x1xf32>
// CHECK-NEXT: %[[V9:.*]] = nn.constant dense<0xFF800000> : tensor<f32>
// CHECK-NEXT: %[[V10:.*]] = nn.compare eq %[[V8]], %[[V9]] : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xi1>
// CHECK-NEXT: %[[V11:.*]] = nn.constant dense<0.000000e+00> : tensor<f32>
// CHECK-NEXT: %[[V12:.*]] = nn.select %[[V10]], %[[V11]], %[[V8]] : (tensor<4x1xi1>, tensor<f32>, tensor<4x1xf32>) -> tensor<4x1xf32>
// CHECK-NEXT: %[[V13:.*]] = nn.sub %[[X]], %[[V12]] : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
// CHECK-NEXT: %[[V14:.*]] = nn.exp %[[V13]] : tensor<4x8xf32>
// CHECK-NEXT: %[[V15:.*]] = nn.constant dense<1.000000e+00> : tensor<f32>
// CHECK-NEXT: %[[V16:.*]] = nn.select %[[V7]], %[[V15]], %[[V11]] : (tensor<4x8xi1>, tensor<f32>, tensor<f32>) -> tensor<4x8xf32>
// CHECK-NEXT: %[[V17:.*]] = nn.sub %[[V14]], %[[V16]] : tensor<4x8xf32>
// CHECK-NEXT: %[[V18:.*]] = nn.mul %[[V8]], %[[V17]] : (tensor<4x1xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
// CHECK-NEXT: %[[V19:.*]] = nn.select %[[V5]], %[[V18]], %[[V11]] : (tensor<4x1xi1>, tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
// CHECK-NEXT: %[[V20:.*]] = nn.mul %[[V8]], %[[V14]] : (tensor<4x1xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
// CHECK-NEXT: %[[V21:.*]] = nn.add %[[V19]], %[[V20]] : tensor<4x8xf32>
// CHECK-NEXT: return %[[V21]]
func.func @cross_entropy_grad(%x: tensor<4x8xf32>, %t: tensor<4xi32>, %l: tensor<4xf32>) -> tensor<4x8xf32> {
  %0 = nn.cross_entropy_grad %x, %t, %l grad %l, %l : (tensor<4x8xf32>, tensor<4xi32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// -----

// What has weight 0 does not count, NaN included.
// CHECK-LABEL: func.func @step_mean(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<{{[^,]*}}>, %[[W:[a-z0-9]+]]: tensor<{{[^,]*}}>, %[[M:[a-z0-9]+]]: tensor<{{[^,]*}}>
// CHECK-NEXT: %[[V0:.*]] = nn.constant dense<0.000000e+00> : tensor<f32>
// CHECK-NEXT: %[[V1:.*]] = nn.compare ne %[[W]], %[[V0]] : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xi1>
// CHECK-NEXT: %[[V2:.*]] = nn.mul %[[X]], %[[W]] : tensor<4x8xf32>
// CHECK-NEXT: %[[V3:.*]] = nn.select %[[V1]], %[[V2]], %[[V0]] : (tensor<4x8xi1>, tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
// CHECK-NEXT: %[[V4:.*]] = nn.reduce sum %[[W]] dims [0, 1] : (tensor<4x8xf32>) -> tensor<f32>
// CHECK-NEXT: %[[V5:.*]] = nn.reduce sum %[[V3]] dims [0, 1] : (tensor<4x8xf32>) -> tensor<f32>
// CHECK-NEXT: %[[V6:.*]] = nn.constant dense<1.000000e+00> : tensor<f32>
// CHECK-NEXT: %[[V7:.*]] = nn.max %[[V4]], %[[V6]] : tensor<f32>
// CHECK-NEXT: %[[V8:.*]] = nn.div %[[V5]], %[[V7]] : tensor<f32>
// CHECK-NEXT: %[[V9:.*]] = nn.cast %[[M]] : tensor<4x8xi1> -> tensor<4x8xf32>
// CHECK-NEXT: %[[V10:.*]] = nn.select %[[M]], %[[X]], %[[V0]] : (tensor<4x8xi1>, tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
// CHECK-NEXT: %[[V11:.*]] = nn.reduce sum %[[V9]] dims [0, 1] : (tensor<4x8xf32>) -> tensor<f32>
// CHECK-NEXT: %[[V12:.*]] = nn.reduce sum %[[V10]] dims [0, 1] : (tensor<4x8xf32>) -> tensor<f32>
// CHECK-NEXT: %[[V13:.*]] = nn.max %[[V11]], %[[V6]] : tensor<f32>
// CHECK-NEXT: %[[V14:.*]] = nn.div %[[V12]], %[[V13]] : tensor<f32>
// CHECK-NEXT: return %[[V8]], %[[V14]]
func.func @step_mean(%x: tensor<4x8xf32>, %w: tensor<4x8xf32>, %m: tensor<4x8xi1>) -> (tensor<f32>, tensor<f32>) {
  %0 = nn.step_mean %x weights %w : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<f32>
  %1 = nn.step_mean %x weights %m : (tensor<4x8xf32>, tensor<4x8xi1>) -> tensor<f32>
  return %0, %1 : tensor<f32>, tensor<f32>
}

// -----

// The update is computed in the widest type and rounded into each tensor's.
// CHECK-LABEL: func.func @adamw(
// CHECK-SAME: %[[P:[a-z0-9]+]]: tensor<{{[^,]*}}>, %[[G:[a-z0-9]+]]: tensor<{{[^,]*}}>, %[[S:[a-z0-9]+]]: tensor<{{[^,]*}}>
// CHECK-NEXT: %[[V0:.*]] = nn.cast %[[G]] {nn.role = "optimizer"} : tensor<4xbf16> -> tensor<4xf32>
// CHECK-NEXT: %[[V1:.*]] = nn.mul %[[V0]], %[[S]] {nn.role = "optimizer"} : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
// CHECK-NEXT: %[[V2:.*]] = nn.mul %[[S]], %[[P]] {nn.role = "optimizer"} : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
// CHECK-NEXT: %[[V3:.*]] = nn.constant dense<1.000000e+00> : tensor<f32> {nn.role = "optimizer"}
// CHECK-NEXT: %[[V4:.*]] = nn.sub %[[V3]], %[[S]] {nn.role = "optimizer"} : tensor<f32>
// CHECK-NEXT: %[[V5:.*]] = nn.mul %[[V4]], %[[V1]] {nn.role = "optimizer"} : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
// CHECK-NEXT: %[[V6:.*]] = nn.add %[[V2]], %[[V5]] {nn.role = "optimizer"} : tensor<4xf32>
// CHECK-NEXT: %[[V7:.*]] = nn.mul %[[V1]], %[[V1]] {nn.role = "optimizer"} : tensor<4xf32>
// CHECK-NEXT: %[[V8:.*]] = nn.mul %[[V4]], %[[V7]] {nn.role = "optimizer"} : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
// CHECK-NEXT: %[[V9:.*]] = nn.add %[[V1]], %[[V8]] {nn.role = "optimizer"} : tensor<4xf32>
// CHECK-NEXT: %[[V10:.*]] = nn.div %[[V9]], %[[S]] {nn.role = "optimizer"} : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
// CHECK-NEXT: %[[V11:.*]] = nn.sqrt %[[V10]] {nn.role = "optimizer"} : tensor<4xf32>
// CHECK-NEXT: %[[V12:.*]] = nn.add %[[V11]], %[[S]] {nn.role = "optimizer"} : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
// CHECK-NEXT: %[[V13:.*]] = nn.div %[[V6]], %[[S]] {nn.role = "optimizer"} : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
// CHECK-NEXT: %[[V14:.*]] = nn.div %[[V13]], %[[V12]] {nn.role = "optimizer"} : tensor<4xf32>
// CHECK-NEXT: %[[V15:.*]] = nn.add %[[V2]], %[[V14]] {nn.role = "optimizer"} : tensor<4xf32>
// CHECK-NEXT: %[[V16:.*]] = nn.mul %[[S]], %[[V15]] {nn.role = "optimizer"} : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
// CHECK-NEXT: %[[V17:.*]] = nn.sub %[[P]], %[[V16]] {nn.role = "optimizer"} : tensor<4xf32>
// CHECK-NEXT: %[[V18:.*]] = nn.cast %[[V9]] {nn.role = "optimizer"} : tensor<4xf32> -> tensor<4xbf16>
// CHECK-NEXT: return %[[V17]], %[[V6]], %[[V18]]
func.func @adamw(%p: tensor<4xf32>, %g: tensor<4xbf16>, %s: tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xbf16>) {
  %0:3 = nn.adamw %p, %g, %p, %g lr %s beta1 %s beta2 %s eps %s decay %s corrections %s, %s grad_scale %s {nn.role = "optimizer"} : (tensor<4xf32>, tensor<4xbf16>, tensor<4xf32>, tensor<4xbf16>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xbf16>)
  return %0#0, %0#1, %0#2 : tensor<4xf32>, tensor<4xf32>, tensor<4xbf16>
}

// -----

// CHECK-LABEL: func.func @sgd(
// CHECK-SAME: %[[P:[a-z0-9]+]]: tensor<{{[^,]*}}>, %[[S:[a-z0-9]+]]: tensor<{{[^,]*}}>
// CHECK-NEXT: %[[V0:.*]] = nn.mul %[[P]], %[[S]] : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
// CHECK-NEXT: %[[V1:.*]] = nn.add %[[V0]], %[[V0]] : tensor<4xf32>
// CHECK-NEXT: %[[V2:.*]] = nn.add %[[V0]], %[[V1]] : tensor<4xf32>
// CHECK-NEXT: %[[V3:.*]] = nn.mul %[[S]], %[[V2]] : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
// CHECK-NEXT: %[[V4:.*]] = nn.sub %[[P]], %[[V3]] : tensor<4xf32>
// CHECK-NEXT: return %[[V4]], %[[V1]]
func.func @sgd(%p: tensor<4xf32>, %s: tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0:2 = nn.sgd %p, %p, %p lr %s momentum %s decay %s grad_scale %s : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>)
  return %0#0, %0#1 : tensor<4xf32>, tensor<4xf32>
}

// -----

// Blocks are dimensions of their own, behind a border; a scale is rounded down by way of E8M0, which rounds up; blocks whose largest magnitude is 0, infinite or NaN are not scaled.
// CHECK-LABEL: func.func @quantize(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<2x6xbf16>
// CHECK-NEXT: %[[V0:.*]] = nn.cast %[[X]] : tensor<2x6xbf16> -> tensor<2x6xf32>
// CHECK-NEXT: %[[V1:.*]] = nn.pad %[[V0]] low [0, 0] high [0, 2] : (tensor<2x6xf32>) -> tensor<2x8xf32>
// CHECK-NEXT: %[[V2:.*]] = nn.reshape %[[V1]] : tensor<2x8xf32> -> tensor<2x2x4xf32>
// CHECK-NEXT: %[[V3:.*]] = nn.abs %[[V2]] : tensor<2x2x4xf32>
// CHECK-NEXT: %[[AMAX:.*]] = nn.reduce max %[[V3]] dims [2] keep : (tensor<2x2x4xf32>) -> tensor<2x2x1xf32>
// CHECK-NEXT: %[[ZERO:.*]] = nn.constant dense<0.000000e+00> : tensor<f32>
// CHECK-NEXT: %[[V4:.*]] = nn.compare gt %[[AMAX]], %[[ZERO]] : (tensor<2x2x1xf32>, tensor<f32>) -> tensor<2x2x1xi1>
// CHECK-NEXT: %[[INF:.*]] = nn.constant dense<0x7F800000> : tensor<f32>
// CHECK-NEXT: %[[V5:.*]] = nn.compare lt %[[AMAX]], %[[INF]] : (tensor<2x2x1xf32>, tensor<f32>) -> tensor<2x2x1xi1>
// CHECK-NEXT: %[[USABLE:.*]] = nn.and %[[V4]], %[[V5]] : tensor<2x2x1xi1>
// CHECK-NEXT: %[[ONE:.*]] = nn.constant dense<1.000000e+00> : tensor<f32>
// CHECK-NEXT: %[[L:.*]] = nn.constant dense<4.480000e+02> : tensor<f32>
// CHECK-NEXT: %[[V6:.*]] = nn.div %[[L]], %[[AMAX]] : (tensor<f32>, tensor<2x2x1xf32>) -> tensor<2x2x1xf32>
// CHECK-NEXT: %[[MOST:.*]] = nn.constant dense<3.40282347E+38> : tensor<f32>
// CHECK-NEXT: %[[V7:.*]] = nn.min %[[V6]], %[[MOST]] : (tensor<2x2x1xf32>, tensor<f32>) -> tensor<2x2x1xf32>
// CHECK-NEXT: %[[V8:.*]] = nn.cast %[[V7]] : tensor<2x2x1xf32> -> tensor<2x2x1xf8E8M0FNU>
// CHECK-NEXT: %[[V9:.*]] = nn.cast %[[V8]] : tensor<2x2x1xf8E8M0FNU> -> tensor<2x2x1xf32>
// CHECK-NEXT: %[[V10:.*]] = nn.compare gt %[[V9]], %[[V7]] : (tensor<2x2x1xf32>, tensor<2x2x1xf32>) -> tensor<2x2x1xi1>
// CHECK-NEXT: %[[HALF:.*]] = nn.constant dense<5.000000e-01> : tensor<f32>
// CHECK-NEXT: %[[V11:.*]] = nn.mul %[[V9]], %[[HALF]] : (tensor<2x2x1xf32>, tensor<f32>) -> tensor<2x2x1xf32>
// CHECK-NEXT: %[[V12:.*]] = nn.select %[[V10]], %[[V11]], %[[V9]] : (tensor<2x2x1xi1>, tensor<2x2x1xf32>, tensor<2x2x1xf32>) -> tensor<2x2x1xf32>
// CHECK-NEXT: %[[S:.*]] = nn.select %[[USABLE]], %[[V12]], %[[ONE]] : (tensor<2x2x1xi1>, tensor<2x2x1xf32>, tensor<f32>) -> tensor<2x2x1xf32>
// CHECK-NEXT: %[[V13:.*]] = nn.mul %[[V2]], %[[S]] : (tensor<2x2x4xf32>, tensor<2x2x1xf32>) -> tensor<2x2x4xf32>
// CHECK-NEXT: %[[V14:.*]] = nn.div %[[ONE]], %[[S]] : (tensor<f32>, tensor<2x2x1xf32>) -> tensor<2x2x1xf32>
// CHECK-NEXT: %[[V15:.*]] = nn.cast %[[V13]] : tensor<2x2x4xf32> -> tensor<2x2x4xf8E4M3FN>
// CHECK-NEXT: %[[V16:.*]] = nn.reshape %[[V15]] : tensor<2x2x4xf8E4M3FN> -> tensor<2x8xf8E4M3FN>
// CHECK-NEXT: %[[Q:.*]] = nn.slice %[[V16]] offsets [0, 0] sizes [2, 6] : (tensor<2x8xf8E4M3FN>) -> tensor<2x6xf8E4M3FN>
// CHECK-NEXT: %[[F:.*]] = nn.reshape %[[V14]] : tensor<2x2x1xf32> -> tensor<2x2xf32>
// CHECK-NEXT: return %[[Q]], %[[F]]
func.func @quantize(%x: tensor<2x6xbf16>) -> (tensor<2x6xf8E4M3FN>, tensor<2x2xf32>) {
  %q, %f = nn.quantize %x to f8E4M3FN blocks [1, 4] scale power_of_two : (tensor<2x6xbf16>) -> (tensor<2x6xf8E4M3FN>, tensor<2x2xf32>)
  return %q, %f : tensor<2x6xf8E4M3FN>, tensor<2x2xf32>
}

// -----

// The factor itself is rounded up; a tensor that is one block keeps its shape.
// CHECK-LABEL: func.func @quantize_e8m0(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<2x6xf32>
// CHECK: %[[AMAX:.*]] = nn.reduce max %{{.*}} dims [0, 1] keep : (tensor<2x6xf32>) -> tensor<1x1xf32>
// CHECK: %[[L:.*]] = nn.constant dense<5.734400e+04> : tensor<f32>
// CHECK-NEXT: %[[V0:.*]] = nn.div %[[AMAX]], %[[L]] : (tensor<1x1xf32>, tensor<f32>) -> tensor<1x1xf32>
// CHECK-NEXT: %[[V1:.*]] = nn.select %{{.*}}, %[[V0]], %{{.*}} : (tensor<1x1xi1>, tensor<1x1xf32>, tensor<f32>) -> tensor<1x1xf32>
// CHECK-NEXT: %[[F:.*]] = nn.cast %[[V1]] : tensor<1x1xf32> -> tensor<1x1xf8E8M0FNU>
// CHECK-NEXT: %[[V2:.*]] = nn.cast %[[F]] : tensor<1x1xf8E8M0FNU> -> tensor<1x1xf32>
// CHECK-NEXT: %[[V3:.*]] = nn.div %[[X]], %[[V2]] : (tensor<2x6xf32>, tensor<1x1xf32>) -> tensor<2x6xf32>
// CHECK-NEXT: %[[Q:.*]] = nn.cast %[[V3]] : tensor<2x6xf32> -> tensor<2x6xf8E5M2>
// CHECK-NEXT: return %[[Q]], %[[F]]
func.func @quantize_e8m0(%x: tensor<2x6xf32>) -> (tensor<2x6xf8E5M2>, tensor<1x1xf8E8M0FNU>) {
  %q, %f = nn.quantize %x to f8E5M2 blocks [0, 8] scale e8m0 : (tensor<2x6xf32>) -> (tensor<2x6xf8E5M2>, tensor<1x1xf8E8M0FNU>)
  return %q, %f : tensor<2x6xf8E5M2>, tensor<1x1xf8E8M0FNU>
}

// -----

// Both operands in f32, a sum in f32, one rounding.
// CHECK-LABEL: func.func @scaled_einsum(
// CHECK-SAME: %[[A:[a-z0-9]+]]: tensor<3x8xf8E4M3FN>, %[[B:[a-z0-9]+]]: tensor<5x8xf8E4M3FN>, %[[S:[a-z0-9]+]]: tensor<3x2xf32>, %[[T:[a-z0-9]+]]: tensor<2x2xf32>
// CHECK-NEXT: %[[V0:.*]] = nn.cast %[[A]] : tensor<3x8xf8E4M3FN> -> tensor<3x8xf32>
// CHECK-NEXT: %[[V1:.*]] = nn.reshape %[[V0]] : tensor<3x8xf32> -> tensor<3x2x4xf32>
// CHECK-NEXT: %[[V2:.*]] = nn.reshape %[[S]] : tensor<3x2xf32> -> tensor<3x2x1xf32>
// CHECK-NEXT: %[[V3:.*]] = nn.mul %[[V1]], %[[V2]] : (tensor<3x2x4xf32>, tensor<3x2x1xf32>) -> tensor<3x2x4xf32>
// CHECK-NEXT: %[[V4:.*]] = nn.reshape %[[V3]] : tensor<3x2x4xf32> -> tensor<3x8xf32>
// CHECK-NEXT: %[[V5:.*]] = nn.cast %[[B]] : tensor<5x8xf8E4M3FN> -> tensor<5x8xf32>
// CHECK-NEXT: %[[V6:.*]] = nn.pad %[[V5]] low [0, 0] high [3, 0] : (tensor<5x8xf32>) -> tensor<8x8xf32>
// CHECK-NEXT: %[[V7:.*]] = nn.reshape %[[V6]] : tensor<8x8xf32> -> tensor<2x4x2x4xf32>
// CHECK-NEXT: %[[V8:.*]] = nn.reshape %[[T]] : tensor<2x2xf32> -> tensor<2x1x2x1xf32>
// CHECK-NEXT: %[[V9:.*]] = nn.mul %[[V7]], %[[V8]] : (tensor<2x4x2x4xf32>, tensor<2x1x2x1xf32>) -> tensor<2x4x2x4xf32>
// CHECK-NEXT: %[[V10:.*]] = nn.reshape %[[V9]] : tensor<2x4x2x4xf32> -> tensor<8x8xf32>
// CHECK-NEXT: %[[V11:.*]] = nn.slice %[[V10]] offsets [0, 0] sizes [5, 8] : (tensor<8x8xf32>) -> tensor<5x8xf32>
// CHECK-NEXT: %[[V12:.*]] = nn.einsum "mk,nk->mn"(%[[V4]], %[[V11]]) : (tensor<3x8xf32>, tensor<5x8xf32>) -> tensor<3x5xf32>
// CHECK-NEXT: %[[V13:.*]] = nn.cast %[[V12]] : tensor<3x5xf32> -> tensor<3x5xbf16>
// CHECK-NEXT: return %[[V13]]
func.func @scaled_einsum(%a: tensor<3x8xf8E4M3FN>, %b: tensor<5x8xf8E4M3FN>, %s: tensor<3x2xf32>, %t: tensor<2x2xf32>) -> tensor<3x5xbf16> {
  %y = nn.scaled_einsum "mk,nk->mn"(%a, %b) scales(%s, %t) blocks [1, 4], [4, 4]
    : (tensor<3x8xf8E4M3FN>, tensor<5x8xf8E4M3FN>, tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x5xbf16>
  return %y : tensor<3x5xbf16>
}

// -----

// CHECK-LABEL: func.func @dequantize(
// CHECK-SAME: %[[Q:[a-z0-9]+]]: tensor<3x8xf8E5M2>, %[[F:[a-z0-9]+]]: tensor<3x1xf8E8M0FNU>
// CHECK-NEXT: %[[V0:.*]] = nn.cast %[[Q]] : tensor<3x8xf8E5M2> -> tensor<3x8xf32>
// CHECK-NEXT: %[[V1:.*]] = nn.cast %[[F]] : tensor<3x1xf8E8M0FNU> -> tensor<3x1xf32>
// CHECK-NEXT: %[[V2:.*]] = nn.mul %[[V0]], %[[V1]] : (tensor<3x8xf32>, tensor<3x1xf32>) -> tensor<3x8xf32>
// CHECK-NEXT: %[[V3:.*]] = nn.cast %[[V2]] : tensor<3x8xf32> -> tensor<3x8xf16>
// CHECK-NEXT: return %[[V3]]
func.func @dequantize(%q: tensor<3x8xf8E5M2>, %f: tensor<3x1xf8E8M0FNU>) -> tensor<3x8xf16> {
  %x = nn.dequantize %q, %f blocks [1, 0] : (tensor<3x8xf8E5M2>, tensor<3x1xf8E8M0FNU>) -> tensor<3x8xf16>
  return %x : tensor<3x8xf16>
}
