#include "text/tokenizer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace causeway::text {
namespace {

constexpr std::int64_t kFileBytesMax = std::int64_t{256} << 20;

struct File {
  explicit File(const std::filesystem::path& path)
      // A FIFO without a writer would hold this call for ever.
      : fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (fd >= 0) ::close(fd);
  }
  int fd;
};

// The whole file; kNotFound when it is absent.
Result<std::string> read_vocabulary_file(const std::filesystem::path& path) {
  const File file(path);
  if (file.fd < 0 && errno == ENOENT) return not_found(path.string() + " does not exist");
  if (file.fd < 0) return io_error("opening " + path.string(), errno);
  struct stat status {};
  if (::fstat(file.fd, &status) != 0) return io_error("reading " + path.string(), errno);
  if (!S_ISREG(status.st_mode)) return invalid_argument(path.string() + " is not a regular file");
  if (status.st_size > kFileBytesMax) {
    return corrupt(path.string() + " has " + std::to_string(status.st_size) +
                   " bytes; at most 256 MiB are read");
  }
  std::string bytes(static_cast<std::size_t>(status.st_size), '\0');
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = ::read(file.fd, bytes.data() + done, bytes.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return io_error("reading " + path.string(), errno);
    if (got == 0) break;  // it shrank meanwhile
    done += static_cast<std::size_t>(got);
  }
  bytes.resize(done);
  return bytes;
}

// The same, but "" when it is absent.
Result<std::string> read_optional_file(const std::filesystem::path& path) {
  auto bytes = read_vocabulary_file(path);
  if (!bytes.ok() && bytes.error().code == ErrorCode::kNotFound) return std::string();
  return bytes;
}

}  // namespace

Result<std::vector<TokenId>> Tokenizer::encode(std::string_view text,
                                               const EncodeOptions& options) const {
  CAUSEWAY_ASSIGN(TokensUpTo all, encode_up_to(text, options, kAllTokens));
  return std::move(all.ids);
}

Result<std::unique_ptr<Tokenizer>> load_tokenizer(const std::filesystem::path& directory) {
  CAUSEWAY_ASSIGN(const std::string config,
                  read_optional_file(directory / "tokenizer_config.json"));
  CAUSEWAY_ASSIGN(const std::string special_map,
                  read_optional_file(directory / "special_tokens_map.json"));
  const TokenizerSideFiles side{config, special_map};
  auto json = read_vocabulary_file(directory / "tokenizer.json");
  if (json.ok()) return load_tokenizer_json(*json, side).with_context(directory.string());
  if (json.error().code != ErrorCode::kNotFound) return json.error();
  auto model = read_vocabulary_file(directory / "tokenizer.model");
  if (model.ok()) {
    CAUSEWAY_ASSIGN(const std::string added, read_optional_file(directory / "added_tokens.json"));
    return load_sentencepiece({*model, config, added, special_map})
        .with_context(directory.string());
  }
  if (model.error().code != ErrorCode::kNotFound) return model.error();
  for (const auto& [name, load] :
       {std::pair("tekken.json", &load_tekken), std::pair("qwen.tiktoken", &load_tiktoken)}) {
    auto file = read_vocabulary_file(directory / name);
    if (file.ok()) return load(*file, side).with_context(directory.string());
    if (file.error().code != ErrorCode::kNotFound) return file.error();
  }
  return not_found(directory.string() +
                   " has none of tokenizer.json, tokenizer.model, tekken.json and qwen.tiktoken; "
                   "one of them is needed");
}

}  // namespace causeway::text
