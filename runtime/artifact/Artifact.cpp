#include "sheaf/Artifact.h"
#include "sheaf/Error.h"
#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <elf.h>
#include <fstream>
#include <link.h>
#include <map>
#include <set>
#include <sstream>

using namespace sheaf;

namespace {
/// The loader maps what the program headers say and faults where the file is
/// shorter than they promise, so a cut file is refused here.
void checkElf(const std::string &path) {
  std::ifstream in(path, std::ios::binary);
  if (!in)
    fail("cannot open: {}", std::strerror(errno));
  in.seekg(0, std::ios::end);
  uint64_t size = static_cast<uint64_t>(in.tellg());
  in.seekg(0);
  Elf64_Ehdr header;
  if (!in.read(reinterpret_cast<char *>(&header), sizeof(header)) ||
      std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
    fail("not an artifact: expected an ELF shared object as sheaf-compile "
         "writes it");
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_type != ET_DYN ||
      header.e_phentsize != sizeof(Elf64_Phdr))
    fail("not an artifact: the ELF file is no 64-bit shared object");
  in.seekg(static_cast<std::streamoff>(header.e_phoff));
  for (int i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    if (!in.read(reinterpret_cast<char *>(&segment), sizeof(segment)))
      fail("damaged: the file ends inside its program headers");
    if (segment.p_filesz > size || segment.p_offset > size - segment.p_filesz)
      fail("damaged: the file has {} bytes, segment {} needs {}; compile it "
           "again",
           size, i, segment.p_offset + segment.p_filesz);
  }
}

std::set<std::string> machineFeatures() {
  // What Linux calls a feature, where it is not LLVM's name without '.', '-'
  // and '_'.
  static const std::map<std::string, std::vector<std::string>> aliases = {
      {"pni", {"sse3"}},
      {"abm", {"lzcnt", "popcnt"}},
      {"bmi1", {"bmi"}},
      {"pclmulqdq", {"pclmul"}},
      {"rdrand", {"rdrnd"}},
      {"lahf_lm", {"sahf"}},
      {"fpu", {"x87"}},
      {"lm", {"64bit"}},
      {"3dnowprefetch", {"prfchw"}},
      {"sha_ni", {"sha"}},
      {"sse4_2", {"sse42", "crc32"}},
      {"cr8_legacy", {}}};
  std::set<std::string> features;
  std::ifstream in("/proc/cpuinfo");
  std::string line;
  while (std::getline(in, line)) {
    if (line.rfind("flags", 0) != 0 && line.rfind("Features", 0) != 0)
      continue;
    std::istringstream words(line.substr(line.find(':') + 1));
    std::string word;
    while (words >> word) {
      if (auto it = aliases.find(word); it != aliases.end())
        features.insert(it->second.begin(), it->second.end());
      std::erase_if(word, [](char c) { return c == '_'; });
      features.insert(word);
    }
    break;
  }
  return features;
}
} // namespace

std::vector<std::string>
sheaf::missingCpuFeatures(const std::vector<std::string> &features) {
  static const std::set<std::string> machine = machineFeatures();
  std::vector<std::string> missing;
  for (const std::string &feature : features) {
    std::string plain = feature;
    std::erase_if(plain, [](char c) {
      return c == '_' || c == '.' || c == '-' || c == '+';
    });
    if (!machine.count(plain))
      missing.push_back(feature);
  }
  return missing;
}

Artifact::Artifact(const std::string &file) : path(file) {
  try {
    open();
  } catch (const Error &error) {
    if (handle)
      dlclose(handle);
    fail("{}: {}", path, error.what());
  }
}

Artifact::~Artifact() {
  if (handle)
    dlclose(handle);
}

const void *Artifact::symbol(const char *name, uint64_t &size) const {
  size = 0;
  void *address = dlsym(handle, name);
  if (!address)
    return nullptr;
  Dl_info info;
  void *entry = nullptr;
  if (dladdr1(address, &info, &entry, RTLD_DL_SYMENT) && entry)
    size = static_cast<const ElfW(Sym) *>(entry)->st_size;
  return address;
}

void Artifact::open() {
  checkElf(path);
  // Without a slash the loader would search the library path instead.
  char absolute[PATH_MAX];
  if (!realpath(path.c_str(), absolute))
    fail("cannot open: {}", std::strerror(errno));
  handle = dlopen(absolute, RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    fail("cannot load: {}", dlerror());

  uint64_t size;
  const void *version = symbol("sheaf_abi_version", size);
  const void *text = symbol("sheaf_manifest", size);
  uint64_t textSpace = size;
  const void *textSize = symbol("sheaf_manifest_size", size);
  if (!version || !text || !textSize)
    fail("not an artifact: it does not export {}",
         !version ? "sheaf_abi_version"
         : !text  ? "sheaf_manifest"
                  : "sheaf_manifest_size");
  uint32_t found = *static_cast<const uint32_t *>(version);
  if (found != SHEAF_ABI_VERSION)
    fail("compiled for ABI version {}, this runtime has {}; compile the model "
         "again with the sheaf-compile beside this runtime",
         found, SHEAF_ABI_VERSION);
  uint64_t length = *static_cast<const uint64_t *>(textSize);
  if (textSpace != 0 && length > textSpace)
    fail("damaged: sheaf_manifest_size is {}, the symbol has {} bytes", length,
         textSpace);
  manifestText = {static_cast<const char *>(text), length};
  manifest = Manifest::parse(manifestText);

  if (manifest.target != "cpu")
    fail("compiled for target '{}'; this runtime has the device 'cpu'",
         manifest.target);
  if (std::vector<std::string> missing =
          missingCpuFeatures(manifest.cpuFeatures);
      !missing.empty())
    fail("compiled for a '{}' with CPU features that this machine lacks: {}; "
         "compile the model again on this machine",
         manifest.cpu, fmt::join(missing, ", "));

  auto find = [&](const EntryInfo &entry) {
    void *function = dlsym(handle, entry.symbol.c_str());
    if (!function)
      fail("damaged: entry '{}' names symbol '{}', which is not exported",
           entry.name, entry.symbol);
    functions[entry.symbol] = reinterpret_cast<SheafEntry>(function);
  };
  for (const EntryInfo &entry : manifest.entries) {
    std::for_each(entry.stages.begin(), entry.stages.end(), find);
    if (entry.stages.empty())
      find(entry);
  }

  const void *bytecode = symbol("sheaf_model", size);
  uint64_t space = size;
  const void *bytecodeSize = symbol("sheaf_model_size", size);
  if (bytecode && bytecodeSize) {
    uint64_t bytes = *static_cast<const uint64_t *>(bytecodeSize);
    if (space != 0 && bytes > space)
      fail("damaged: sheaf_model_size is {}, the symbol has {} bytes", bytes,
           space);
    model = {static_cast<const uint8_t *>(bytecode), bytes};
  }
}
