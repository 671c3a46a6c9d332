//===- SignatureAttrs.h - Attributes of many arguments at once --*- C++ -*-===//
//
// A function keeps the attributes of all its arguments in one list, which is
// built anew by each setArgAttr: for the thousands of parameters of a deep
// model one at a time takes time quadratic in their number.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_SUPPORT_SIGNATUREATTRS_H
#define SHEAF_SUPPORT_SIGNATUREATTRS_H

#include "mlir/Interfaces/FunctionInterfaces.h"

namespace sheaf {

/// The attributes of a function's arguments and results. What is set is seen
/// here at once, and in the function when this ends.
class SignatureAttrs {
public:
  explicit SignatureAttrs(mlir::FunctionOpInterface function)
      : function(function) {
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      arguments.emplace_back(function.getArgAttrDict(i));
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      results.emplace_back(function.getResultAttrDict(i));
  }
  SignatureAttrs(const SignatureAttrs &) = delete;
  SignatureAttrs &operator=(const SignatureAttrs &) = delete;
  ~SignatureAttrs() {
    mlir::MLIRContext *context = function->getContext();
    llvm::SmallVector<mlir::DictionaryAttr> all;
    for (mlir::NamedAttrList &list : arguments)
      all.push_back(list.getDictionary(context));
    function.setAllArgAttrs(all);
    all.clear();
    for (mlir::NamedAttrList &list : results)
      all.push_back(list.getDictionary(context));
    function.setAllResultAttrs(all);
  }

  mlir::Attribute getArgAttr(unsigned i, llvm::StringRef name) const {
    return arguments[i].get(name);
  }
  void setArgAttr(unsigned i, llvm::StringRef name, mlir::Attribute value) {
    arguments[i].set(name, value);
  }
  void removeArgAttr(unsigned i, llvm::StringRef name) {
    arguments[i].erase(name);
  }
  mlir::Attribute getResultAttr(unsigned i, llvm::StringRef name) const {
    return results[i].get(name);
  }
  void setResultAttr(unsigned i, llvm::StringRef name, mlir::Attribute value) {
    results[i].set(name, value);
  }
  void removeResultAttr(unsigned i, llvm::StringRef name) {
    results[i].erase(name);
  }

private:
  mlir::FunctionOpInterface function;
  llvm::SmallVector<mlir::NamedAttrList> arguments, results;
};

} // namespace sheaf

#endif // SHEAF_SUPPORT_SIGNATUREATTRS_H
