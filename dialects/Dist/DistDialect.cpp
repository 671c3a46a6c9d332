//===- DistDialect.cpp - Registration and the helpers of Dist.h -----------===//

#include "dialects/Dist/Dist.h"
#include "dialects/NN/NN.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Transforms/InliningUtils.h"

using namespace mlir;
using namespace sheaf::dist;

#include "dialects/Dist/DistDialect.cpp.inc"
#include "dialects/Dist/DistEnums.cpp.inc"
#include "dialects/Dist/DistInterfaces.cpp.inc"

namespace {
/// Every dist op may be inlined anywhere.
struct DistInliner : DialectInlinerInterface {
  using DialectInlinerInterface::DialectInlinerInterface;
  bool isLegalToInline(Operation *, Region *, bool, IRMapping &) const final {
    return true;
  }
};

/// What is asked of a value is asked of its gradient, too.
struct ConstraintGradient
    : sheaf::nn::GradientOpInterface::ExternalModel<ConstraintGradient,
                                                    ConstraintOp> {
  void buildGradient(Operation *op, sheaf::nn::Gradients &gradients) const {
    auto constraint = cast<ConstraintOp>(op);
    Value gradient = gradients.ofResult();
    if (gradients.needs(0))
      gradients.set(0, ConstraintOp::create(gradients.builder, gradients.loc,
                                            gradient.getType(), gradient,
                                            constraint.getSharding(),
                                            constraint.getBecauseAttr()));
  }
};
} // namespace

void DistDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "dialects/Dist/DistOps.cpp.inc"
      >();
  registerDistAttributes();
  addInterfaces<DistInliner>();
  ConstraintOp::attachInterface<ConstraintGradient>(*getContext());
}

bool sheaf::dist::isStaticTensor(Type type) { return nn::isStaticTensor(type); }

MeshOp sheaf::dist::getMesh(Operation *op) {
  for (; op; op = op->getParentOp())
    if (auto module = dyn_cast<ModuleOp>(op))
      for (MeshOp mesh : module.getOps<MeshOp>())
        return mesh;
  return nullptr;
}

// Per direction. NVLink: H100's line rate times what NCCL reaches; network:
// 400 Gb/s a device; memory: threads of one process that copy.
std::optional<LinkSpeed> sheaf::dist::lookupLinkClass(StringRef name) {
  if (name == "memory")
    return LinkSpeed{1.0e10, 1.0e-6};
  if (name == "nvlink")
    return LinkSpeed{3.7e11, 2.0e-6};
  if (name == "pcie")
    return LinkSpeed{2.5e10, 4.0e-6};
  if (name == "network")
    return LinkSpeed{4.5e10, 8.0e-6};
  return std::nullopt;
}

LinkSpeed sheaf::dist::getLinkSpeed(MeshAxisAttr axis) {
  std::optional<LinkSpeed> named = lookupLinkClass(axis.getLink());
  LinkSpeed speed = named.value_or(*lookupLinkClass("memory"));
  if (axis.getBandwidth())
    speed.bandwidth = axis.getBandwidth().getValueAsDouble();
  if (axis.getLatency())
    speed.latency = axis.getLatency().getValueAsDouble();
  return speed;
}

PartialAttr sheaf::dist::getPartial(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor ? dyn_cast_or_null<PartialAttr>(tensor.getEncoding()) : nullptr;
}

RankedTensorType sheaf::dist::withPartial(RankedTensorType type,
                                          PartialAttr encoding) {
  return RankedTensorType::get(type.getShape(), type.getElementType(),
                               encoding);
}
