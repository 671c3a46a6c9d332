#include "sheaf/Program.h"
#include "sheaf/Error.h"
#include <algorithm>
#include <cstring>
#include <set>

using namespace sheaf;

Program::Program(const Artifact &artifact, CpuDevice &device)
    : artifact(artifact), manifest(artifact.manifest), device(device),
      memory(manifest.buffers.size()), present(manifest.buffers.size()) {
  if (manifest.ranks != device.communicator.ranks())
    fail("{}: compiled for {} rank{}, this run has {}", artifact.path,
         manifest.ranks, manifest.ranks == 1 ? "" : "s",
         device.communicator.ranks());
}

void Program::prepare(const std::vector<std::string> &entries) {
  std::set<int> missing;
  int64_t needed = 0, arenaNeeded = 0;
  for (const std::string &name : entries) {
    for (int index : manifest.entry(name).arguments)
      present[index] = true;
    const EntryInfo &entry = this->entry(name);
    arenaNeeded = std::max(arenaNeeded, entry.arenaBytes);
    for (int index : entry.arguments)
      if (!memory[index].data() && missing.insert(index).second)
        needed += manifest.buffers[index].bytes;
  }
  bool growArena = !arena.data() || arenaNeeded > arena.bytes();
  int64_t total = needed + (growArena ? arenaNeeded : 0);
  if (total > (int64_t{64} << 20) && total > availableMemory())
    fail("{} needs {} more ({} bytes: buffers {}, arena {}), {} are "
         "available; use a smaller batch or more microbatches",
         artifact.path, bytesText(total), total, bytesText(needed),
         bytesText(arenaNeeded), bytesText(availableMemory()));

  for (int index : missing) {
    const BufferInfo &buffer = manifest.buffers[index];
    memory[index] = Memory(buffer.bytes);
    memory[index].touch();
    if (buffer.kind == BufferKind::Scalar)
      fill(index, buffer.value);
    if (buffer.kind == BufferKind::Coordinates) {
      std::vector<int64_t> at = manifest.mesh.coordinates(communicator().rank);
      for (size_t i = 0; i < at.size(); ++i)
        setElement(buffer.type, data(index), static_cast<int64_t>(i),
                   static_cast<double>(at[i]));
    }
  }
  if (growArena) {
    arena = Memory();
    arena = Memory(arenaNeeded);
  }
}

void Program::call(const std::string &name) {
  prepare({name});
  const EntryInfo &entry = this->entry(name);
  std::vector<void *> buffers;
  for (int index : entry.arguments)
    buffers.push_back(memory[index].data());
  Communicator &communicator = device.communicator;
  communicator.countAs(name, manifest.purposes, manifest.transfers);
  communicator.nameActions(manifest.actions);
  SheafContext context = {CpuDevice::functions(),
                          buffers.data(),
                          arena.data(),
                          &device,
                          CpuDevice::communicatorFunctions(),
                          communicator.rank};
  if (device.watchesGathered && !communicator.counts().at(name).isWatched) {
    std::vector<GatheredWeights::Range> parameters;
    for (int index : entry.arguments)
      if (manifest.buffers[index].kind == BufferKind::Parameter)
        parameters.push_back({static_cast<const char *>(memory[index].data()),
                              manifest.buffers[index].bytes});
    device.gathered.emplace(
        GatheredWeights::Range{static_cast<const char *>(arena.data()),
                               entry.arenaBytes},
        std::move(parameters));
  }
  if (device.profile)
    device.profile->beginStep(name);
  int32_t code = artifact.functions.at(entry.symbol)(&context);
  if (device.profile)
    device.profile->endStep();
  if (device.gathered)
    communicator.countGathered(name, device.gathered->most(false),
                               device.gathered->most(true));
  device.gathered.reset();
  // The others are told before this rank's buffers go.
  auto failRank = [&](std::string message) {
    // The root's other failures are the run's, not its rank's.
    if (communicator.isRoot() && communicator.ranks() > 1)
      message = "rank 0: " + message;
    communicator.abort(message);
    communicator.abandon();
    throw Error(message);
  };
  try {
    device.throwPending();
  } catch (const PeerError &) {
    throw;
  } catch (const Error &error) {
    failRank(fmt::format("entry '{}': {}", name, error.what()));
  }
  if (code != 0)
    failRank(fmt::format("entry '{}' of {} returned error {}", name,
                         artifact.path, code));
  if (communicator.open() > 0)
    failRank(fmt::format("entry '{}' of {} ended with {} open transfers", name,
                         artifact.path, communicator.open()));
}

void Program::fill(int index, double value) {
  if (index < 0 || !memory[index].data())
    return;
  const BufferInfo &buffer = manifest.buffers[index];
  for (int64_t i = 0; i < buffer.elements; ++i)
    setElement(buffer.type, memory[index].data(), i, value);
}

double Program::value(int index) const {
  return element(manifest.buffers[index].type, memory[index].data(), 0);
}

void Program::setStep(uint64_t seed, int64_t step) {
  fill(manifest.findKind(BufferKind::Step), static_cast<double>(step));
  int rng = manifest.findKind(BufferKind::Rng);
  if (rng < 0 || !memory[rng].data())
    return;
  int32_t *words = static_cast<int32_t *>(memory[rng].data());
  words[0] = static_cast<int32_t>(static_cast<uint32_t>(seed));
  words[1] = static_cast<int32_t>(static_cast<uint32_t>(seed >> 32));
  words[2] = static_cast<int32_t>(step);
  words[3] = 0;
}

const void *Program::whole(int index, Memory &space) const {
  const BufferInfo &buffer = manifest.buffers[index];
  const Layout &layout = buffer.layout;
  if (!layout.isElsewhere())
    return isRoot() ? data(index) : nullptr;
  Communicator &comm = communicator();
  if (!isRoot()) {
    if (layout.isFirstOwner(comm.place()))
      comm.sendBytesTo(0, data(index), buffer.bytes);
    return nullptr;
  }
  int64_t size = elementSize(buffer.type);
  space = Memory();
  space = Memory(*elementCount(layout.global) * size);
  std::vector<char> part;
  for (int place = 0; place < comm.ranks(); ++place) {
    if (!layout.isFirstOwner(place))
      continue;
    int rank = static_cast<int>(comm.mesh.rankAt(place));
    const char *from = static_cast<const char *>(data(index));
    if (rank != comm.rank) {
      part.resize(buffer.bytes);
      comm.receiveBytesFrom(rank, part.data(), buffer.bytes);
      from = part.data();
    }
    layout.forEachRun(
        place, [&](int64_t local, int64_t global, int64_t length) {
          std::memcpy(static_cast<char *>(space.data()) + global * size,
                      from + local * size, length * size);
        });
  }
  return space.data();
}

std::array<int64_t, bufferKinds> Program::bytesByKind() const {
  std::array<int64_t, bufferKinds> bytes = {};
  for (size_t i = 0; i < memory.size(); ++i)
    if (memory[i].data())
      bytes[static_cast<int>(manifest.buffers[i].kind)] +=
          manifest.buffers[i].bytes;
  return bytes;
}
