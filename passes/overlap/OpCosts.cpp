//===- OpCosts.cpp - How long the ops of a program take -------------------===//

#include "passes/overlap/OpCosts.h"
#include "dialects/NN/NN.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace sheaf;
using namespace sheaf::exec;

OpCosts::OpCosts(ModuleOp module, ClusterCosts &costs) : costs(costs) {
  if (auto found = module.lookupSymbol<ModuleOp>(kKernelsName))
    kernels.emplace(found);
}

static SheafType typeOf(Type type) {
  if (type.isF64())
    return SHEAF_F64;
  if (type.isBF16())
    return SHEAF_BF16;
  if (type.isF16())
    return SHEAF_F16;
  if (isa<Float8E4M3FNType>(type))
    return SHEAF_F8E4M3;
  if (isa<Float8E5M2Type>(type))
    return SHEAF_F8E5M2;
  return SHEAF_F32;
}

static MemRefType memoryOf(Value buffer) {
  return cast<MemRefType>(buffer.getType());
}

/// The type that operand `i` would have on a device with narrow products.
static Type narrowType(Operation *op, unsigned i, Type otherwise) {
  auto types = op->getAttrOfType<ArrayAttr>(kNarrowAttr);
  return types && i < types.size() ? cast<TypeAttr>(types[i]).getValue()
                                   : otherwise;
}

static double bytesOf(ValueRange buffers) {
  double bytes = 0;
  for (Value buffer : buffers)
    bytes += static_cast<double>(getBytes(memoryOf(buffer)));
  return bytes;
}

/// Two products of scores and values; the backward has five.
static double attentionFlops(Value query, Value value, bool isCausal,
                             bool isBackward) {
  auto q = cast<RankedTensorType>(query.getType()),
       v = cast<RankedTensorType>(value.getType());
  double pairs =
      static_cast<double>(q.getDimSize(0) * q.getDimSize(1) * q.getDimSize(2)) *
      static_cast<double>(v.getDimSize(1));
  double forward =
      2 * pairs * static_cast<double>(q.getDimSize(3) + v.getDimSize(3));
  return forward * (isCausal ? 0.5 : 1) * (isBackward ? 2.5 : 1);
}

double OpCosts::kernelSeconds(LaunchOp op) {
  double bytes = bytesOf(op.getRead()) + bytesOf(op.getWritten());
  Operation *kernel =
      kernels ? kernels->lookup(op.getKernel().getLeafReference().getValue())
              : nullptr;
  if (!kernel)
    return costs.kernel(0, bytes);
  if (kernel->hasAttr(kNarrowNoneAttr))
    return 0;
  if (auto saved = kernel->getAttrOfType<IntegerAttr>(kNarrowSavedAttr))
    bytes = std::max(0.0, bytes - static_cast<double>(saved.getInt()));
  double seconds = 0;
  kernel->walk([&](Operation *inner) {
    if (auto attention = dyn_cast<nn::AttentionOp>(inner))
      seconds = costs.attention(
          attentionFlops(attention.getQuery(), attention.getValue(),
                         attention.getCausal(), false),
          bytes,
          typeOf(narrowType(kernel, 0,
                            attention.getQuery().getType().getElementType())),
          false);
    else if (auto attention = dyn_cast<nn::AttentionGradOp>(inner))
      seconds = costs.attention(
          attentionFlops(attention.getQuery(), attention.getValue(),
                         attention.getCausal(), true),
          bytes,
          typeOf(narrowType(kernel, 0,
                            attention.getQuery().getType().getElementType())),
          true);
  });
  return seconds != 0 ? seconds : costs.kernel(0, bytes);
}

double OpCosts::seconds(Operation *op) {
  if (auto launch = dyn_cast<LaunchOp>(op))
    return kernelSeconds(launch);
  if (auto copy = dyn_cast<CopyOp>(op))
    return costs.kernel(0, bytesOf(copy->getOperands()));
  if (auto matmul = dyn_cast<MatmulOp>(op)) {
    double count = 1;
    for (int64_t size : matmul.getBatch().value_or(ArrayRef<int64_t>()))
      count *= static_cast<double>(size);
    double m = static_cast<double>(matmul.getDims()[0]),
           n = static_cast<double>(matmul.getDims()[1]),
           k = static_cast<double>(matmul.getDims()[2]);
    Type types[3];
    for (unsigned i = 0; i < 3; ++i)
      types[i] =
          narrowType(op, i, memoryOf(op->getOperand(i)).getElementType());
    auto width = [&](unsigned i) {
      return std::max(1u, types[i].getIntOrFloatBitWidth() / 8);
    };
    double bytes =
        count * (m * k * width(0) + k * n * width(1) +
                 m * n * width(2) * (matmul.getAccumulate() ? 2 : 1));
    return costs.product(2 * count * m * n * k, bytes, typeOf(types[0]),
                         typeOf(types[1]));
  }
  if (auto matmul = dyn_cast<GroupedMatmulOp>(op)) {
    // Of as many rows as there can be.
    ArrayRef<int64_t> dims = matmul.getDims();
    double flops = 2;
    for (int64_t size : {dims[0], dims[1], dims[3], dims[4]})
      flops *= static_cast<double>(size);
    SheafType type = typeOf(
        narrowType(op, 0, memoryOf(matmul.getRead()[0]).getElementType()));
    return costs.product(flops, bytesOf(op->getOperands()), type, type);
  }
  return 0;
}

double OpCosts::transferSeconds(CollectiveOp op) {
  // Of an all-gather what all receive, else the buffer.
  Value whole = op.getKind() == Transfer::AllGather ? op.getWritten()[0]
                                                    : op.getRead()[0];
  return costs.transfer(static_cast<int32_t>(op.getKind()), bytesOf(whole),
                        op.getSizes().vec(), op.getStrides().vec());
}
