#include "worker/messages.h"

#include <array>
#include <utility>

#include "worker/fields.h"

namespace causeway::worker {
namespace {

template <std::size_t kType>
Message read(Reader& reader) {
  std::variant_alternative_t<kType, Message> message;
  reader(message);
  return message;
}

template <std::size_t... kTypes>
Message read(Reader& reader, std::size_t type, std::index_sequence<kTypes...>) {
  using Read = Message (*)(Reader&);
  static constexpr std::array<Read, sizeof...(kTypes)> kReads = {&read<kTypes>...};
  return kReads[type](reader);
}

}  // namespace

std::vector<std::byte> encode(const Message& message) {
  Writer writer;
  writer(static_cast<std::uint8_t>(message.index()));
  std::visit([&](const auto& one) { writer(one); }, message);
  return writer.take();
}

Result<Message> decode(std::span<const std::byte> bytes) {
  constexpr std::size_t kTypes = std::variant_size_v<Message>;
  if (bytes.empty()) return corrupt("an empty message");
  const auto type = static_cast<std::size_t>(bytes.front());
  if (type >= kTypes) return corrupt("a message of unknown type " + std::to_string(type));
  Reader reader(bytes.subspan(1));
  Message message = read(reader, type, std::make_index_sequence<kTypes>());
  CAUSEWAY_TRY(reader.end());
  return message;
}

Status check_hello(const Hello& theirs, const Hello& ours) {
  if (theirs.magic != ours.magic) return corrupt("what is on the socket is no worker's hello");
  if (theirs.protocol == ours.protocol && theirs.version == ours.version) return {};
  const auto of = [](const Hello& hello) {
    return "version " + hello.version + " (protocol " + std::to_string(hello.protocol) + ")";
  };
  return unsupported("the other process is of " + of(theirs) + ", this one of " + of(ours) +
                     ": start both from one build");
}

}  // namespace causeway::worker
