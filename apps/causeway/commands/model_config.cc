#include "commands/model_config.h"

#include <filesystem>
#include <fstream>

namespace causeway::app {
namespace {

constexpr std::int64_t kConfigBytesMax = 1 << 20;

}  // namespace

Result<model::ModelConfig> read_model_config(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  std::string text(kConfigBytesMax, '\0');
  in.read(text.data(), kConfigBytesMax);
  text.resize(static_cast<std::size_t>(in.gcount()));
  auto config = model::parse_config(text);
  if (config.ok()) return config;
  Error error = config.error();
  error.message = file + ": " + error.message;
  return error;
}

std::string model_name_of(const std::string& file) {
  const std::filesystem::path path = std::filesystem::absolute(file);
  const bool plain = path.filename() == "config.json";
  return plain ? path.parent_path().filename().string() : path.stem().string();
}

}  // namespace causeway::app
