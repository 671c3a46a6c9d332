//===- WriteFile.cpp - Files that are there whole or not at all -----------===//

#include "support/WriteFile.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

using namespace sheaf;

static llvm::Error failed(llvm::StringRef path, const llvm::Twine &cause) {
  return llvm::createStringError("cannot write '" + path + "': " + cause);
}

/// Writes and closes nothing; an error of the stream is taken off it.
static llvm::Error write(llvm::raw_fd_ostream &stream, llvm::StringRef path,
                         llvm::StringRef bytes) {
  stream << bytes;
  stream.flush();
  if (!stream.has_error())
    return llvm::Error::success();
  std::string cause = stream.error().message();
  stream.clear_error();
  return failed(path, cause);
}

llvm::Error sheaf::writeFile(llvm::StringRef path, llvm::StringRef bytes,
                             bool executable) {
  namespace fs = llvm::sys::fs;
  fs::file_status status;
  bool special =
      path == "-" || (!fs::status(path, status) && fs::exists(status) &&
                      !fs::is_regular_file(status));
  if (special) {
    std::error_code code;
    llvm::raw_fd_ostream stream(path, code);
    if (code)
      return failed(path, code.message());
    return write(stream, path, bytes);
  }
  llvm::Expected<fs::TempFile> file =
      fs::TempFile::create(path + ".%%%%%%.part");
  if (!file)
    return failed(path, llvm::toString(file.takeError()));
  llvm::Error error = llvm::Error::success();
  {
    llvm::raw_fd_ostream stream(file->FD, /*shouldClose=*/false);
    error = write(stream, path, bytes);
  }
  if (!error) {
    int mask = fs::getUmask();
    std::error_code code = fs::setPermissions(
        file->FD, static_cast<fs::perms>((executable ? 0777 : 0666) & ~mask));
    if (code)
      error = failed(path, code.message());
  }
  if (error) {
    llvm::consumeError(file->discard());
    return error;
  }
  if (llvm::Error kept = file->keep(path))
    return failed(path, llvm::toString(std::move(kept)));
  return llvm::Error::success();
}
