//===- Padding.h - What is behind the end of a shard -----------*- C++ -*-===//
//
// Where a size does not divide, the last shards have elements behind the end of
// the tensor. The programs that dist-partition writes never read them: an op
// that reduces over them puts its neutral element there first.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_PASSES_SHARDING_PADDING_H
#define SHEAF_PASSES_SHARDING_PADDING_H

#include "llvm/ADT/StringRef.h"

namespace sheaf::sharding {

/// On a dist.slice: nobody reads what is behind the end, so that it may be
/// anything instead of the zeros that a slice has there.
inline constexpr llvm::StringLiteral kAnyPaddingAttr = "dist.any_padding";

} // namespace sheaf::sharding

#endif // SHEAF_PASSES_SHARDING_PADDING_H
