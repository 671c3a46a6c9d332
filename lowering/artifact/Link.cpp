//===- Link.cpp - Object code into a shared object ------------------------===//

#include "lowering/artifact/Artifact.h"
#include "lld/Common/Driver.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

LLD_HAS_DRIVER(elf)

using namespace mlir;
using namespace sheaf;

bool sheaf::isSpecialFile(StringRef path) {
  llvm::sys::fs::file_status status;
  return !llvm::sys::fs::status(path, status) && llvm::sys::fs::exists(status) &&
         !llvm::sys::fs::is_regular_file(status) && !llvm::sys::fs::is_directory(status);
}

LogicalResult sheaf::writeOutput(Location loc, StringRef path, StringRef bytes) {
  auto failed = [&](std::error_code error) -> LogicalResult {
    return emitError(loc) << "cannot write '" << path << "': " << error.message();
  };
  bool special = isSpecialFile(path);
  llvm::SmallString<128> temporary(path);
  int descriptor;
  if (std::error_code error =
          special ? llvm::sys::fs::openFileForWrite(path, descriptor,
                                                    llvm::sys::fs::CD_OpenExisting)
                  : llvm::sys::fs::createUniqueFile(path + ".%%%%%%", descriptor, temporary))
    return failed(error);
  llvm::FileRemover remover(temporary);
  if (special)
    remover.releaseFile();
  llvm::raw_fd_ostream stream(descriptor, /*shouldClose=*/true);
  stream << bytes;
  stream.close();
  if (stream.has_error()) {
    std::error_code error = stream.error();
    stream.clear_error();
    return failed(error);
  }
  if (special)
    return success();
  if (std::error_code error = llvm::sys::fs::setPermissions(
          temporary, static_cast<llvm::sys::fs::perms>(0644)))
    return failed(error);
  if (std::error_code error = llvm::sys::fs::rename(temporary, path))
    return failed(error);
  remover.releaseFile();
  return success();
}

LogicalResult sheaf::linkArtifact(Location loc, ArrayRef<std::string> objects,
                                  StringRef path) {
  std::vector<std::string> arguments{"ld.lld", "-shared", "-z", "now", "-z", "relro",
                                     "--hash-style=gnu", "--build-id=none",
                                     "-z", "noexecstack"};
  // Beside the result, so that the last step is a rename within one file system.
  llvm::SmallString<128> temporary;
  int descriptor;
  bool special = isSpecialFile(path);
  if (std::error_code error =
          special ? llvm::sys::fs::createTemporaryFile("sheaf", "so", descriptor, temporary)
                  : llvm::sys::fs::createUniqueFile(path + ".%%%%%%", descriptor, temporary))
    return emitError(loc) << "cannot write '" << path << "': " << error.message();
  llvm::sys::fs::closeFile(descriptor);
  llvm::FileRemover removeTemporary(temporary);
  std::vector<std::unique_ptr<llvm::FileRemover>> removers;
  for (const std::string &object : objects) {
    llvm::SmallString<128> file;
    std::error_code error =
        llvm::sys::fs::createTemporaryFile("sheaf", "o", descriptor, file);
    if (error)
      return emitError(loc) << "cannot write a temporary file: " << error.message();
    removers.push_back(std::make_unique<llvm::FileRemover>(file));
    llvm::raw_fd_ostream stream(descriptor, /*shouldClose=*/true);
    stream << object;
    stream.close();
    if (stream.has_error()) {
      error = stream.error();
      stream.clear_error();
      return emitError(loc) << "cannot write '" << file << "': " << error.message();
    }
    arguments.push_back(std::string(file));
  }
  arguments.push_back("-o");
  arguments.push_back(std::string(temporary));
  std::vector<const char *> raw;
  for (const std::string &argument : arguments)
    raw.push_back(argument.c_str());
  std::string output;
  llvm::raw_string_ostream messages(output);
  lld::Result result =
      lld::lldMain(raw, messages, messages, {{lld::Gnu, &lld::elf::link}});
  if (result.retCode != 0)
    return emitError(loc) << "link failed: " << messages.str();
  if (special) {
    auto linked = llvm::MemoryBuffer::getFile(temporary);
    if (!linked)
      return emitError(loc) << "cannot read '" << temporary
                            << "': " << linked.getError().message();
    return writeOutput(loc, path, (*linked)->getBuffer());
  }
  if (std::error_code error = llvm::sys::fs::setPermissions(
          temporary, static_cast<llvm::sys::fs::perms>(0755)))
    return emitError(loc) << "cannot make '" << temporary
                          << "' executable: " << error.message();
  if (std::error_code error = llvm::sys::fs::rename(temporary, path))
    return emitError(loc) << "cannot write '" << path << "': " << error.message();
  removeTemporary.releaseFile();
  return success();
}
