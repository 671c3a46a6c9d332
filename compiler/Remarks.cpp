//===- Remarks.cpp - What passes did and did not do, and why --------------===//

#include "compiler/Remarks.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Remark/RemarkStreamer.h"
#include "llvm/ADT/DenseSet.h"
#include <algorithm>
#include <mutex>

using namespace mlir;
using namespace sheaf;
using remark::detail::Remark;

namespace {

/// The contexts whose remarks are dropped; passes on functions ask at the same
/// time.
struct Dropped {
  std::mutex mutex;
  llvm::DenseSet<MLIRContext *> contexts;
};

Dropped &dropped() {
  static Dropped instance;
  return instance;
}

class Streamer : public remark::detail::MLIRRemarkStreamerBase {
public:
  Streamer(bool print, std::unique_ptr<MLIRRemarkStreamerBase> file)
      : print(print), file(std::move(file)) {}

  void streamOptimizationRemark(const Remark &remark) override {
    {
      std::lock_guard<std::mutex> lock(dropped().mutex);
      if (dropped().contexts.contains(remark.getLocation().getContext()))
        return;
    }
    if (print) {
      std::string text;
      llvm::raw_string_ostream os(text);
      // What a sentence has, then its figures.
      for (const Remark::Arg &argument : remark.getArgs())
        if (argument.key == "Remark" || argument.key == "Reason")
          os << argument.val;
      if (text.empty())
        os << remark.getRemarkName();
      emitRemark(remark.getLocation())
          << text << " [" << remark.getCategoryName() << "]";
    }
    if (file) {
      std::lock_guard<std::mutex> lock(mutex);
      remarks.push_back(remark);
    }
  }

  void finalize() override {
    if (!file)
      return;
    // Passes on functions run at the same time: the order is that of the text.
    auto key = [](const Remark &remark) {
      std::string text;
      llvm::raw_string_ostream os(text);
      remark.getLocation().print(os);
      remark.print(os);
      return text;
    };
    std::vector<std::pair<std::string, const Remark *>> order;
    for (const Remark &remark : remarks)
      order.emplace_back(key(remark), &remark);
    llvm::stable_sort(order,
                      [](auto &a, auto &b) { return a.first < b.first; });
    for (auto &[text, remark] : order)
      file->streamOptimizationRemark(*remark);
    file->finalize();
  }

private:
  bool print;
  std::unique_ptr<MLIRRemarkStreamerBase> file;
  std::vector<Remark> remarks;
  std::mutex mutex;
};

} // namespace

DropRemarks::DropRemarks(MLIRContext *context) : context(context) {
  std::lock_guard<std::mutex> lock(dropped().mutex);
  dropped().contexts.insert(context);
}

DropRemarks::~DropRemarks() {
  std::lock_guard<std::mutex> lock(dropped().mutex);
  dropped().contexts.erase(context);
}

LogicalResult sheaf::enableRemarks(MLIRContext &context, StringRef filter,
                                   bool print, StringRef file,
                                   std::string &error) {
  if (!llvm::Regex(filter).isValid(error)) {
    error = "'" + filter.str() + "' is no regular expression: " + error;
    return failure();
  }
  std::unique_ptr<remark::detail::MLIRRemarkStreamerBase> writer;
  if (!file.empty()) {
    auto created = remark::detail::LLVMRemarkStreamer::createToFile(
        file, llvm::remarks::Format::YAML);
    if (failed(created)) {
      error = "cannot write '" + file.str() + "'";
      return failure();
    }
    writer = std::move(*created);
  }
  remark::RemarkCategories categories;
  // `all` adds to each of the others and does nothing alone.
  categories.passed = categories.missed = categories.analysis =
      categories.failed = filter.str();
  return remark::enableOptimizationRemarks(
      context, std::make_unique<Streamer>(print, std::move(writer)),
      std::make_unique<remark::RemarkEmittingPolicyAll>(), categories);
}
