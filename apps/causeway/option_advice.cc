#include "option_advice.h"

#include <string_view>

namespace causeway::app {
namespace {

struct Advice {
  std::string_view fact;  // a part of the message
  std::string_view option;  // of the command line or the environment, or a command
};

constexpr Advice kAdvice[] = {
    {"let more of the GPU's memory be used", "--gpu-memory-utilization"},
    {"share of a GPU's memory that may be used", "--gpu-memory-utilization"},
    {"cached weights are to have", "--weights-memory-bytes"},
    {"a step on a GPU has between 1 and", "--max-num-batched-tokens"},
    {"a step on a GPU has between 1 and", "--max-num-seqs"},
    {"a process has one MIG instance:", "--slices MIG-…;MIG-…"},
    {"is divided into MIG instances:", "--slices MIG-…;MIG-…"},
    {"a key for administration", "--admin-key"},
    {"a host of this machine alone", "--admin-host"},
    {"there is no GPU", "--gpu"},
    {"there is no GPU", "--slices"},
    {"there is no GPU", "CUDA_VISIBLE_DEVICES"},
    {"there is no GPU", "`causeway topology`"},
    {"shows this process no such GPU", "CUDA_VISIBLE_DEVICES"},
    {"if that is all that it sees", "CUDA_VISIBLE_DEVICES"},
    {"listing them takes permission", "NVIDIA_MIG_MONITOR_DEVICES"},
    {"the linker's search path", "LD_LIBRARY_PATH"},
    {"the links have not been measured", "`causeway topology`"},
    {"the profile has to be measured anew", "`causeway profile`"},
    {"or serve on the CPU", "--device cpu"},
    {"tokens that the model", "--max-model-len"},
    {"bytes for KV are less than one frame", "--kv-cache-memory-bytes"},
    {"bytes for KV are less than one frame", "--kv-frame-bytes"},
    {"bytes is less than one extent", "--weights-memory-bytes"},
    {"a model is a folder with config.json", "--models-dir"},
    {"`prompt` has token id", "--vocab-size"},
    {"give the server a template", "--chat-template"},
    {"writes calls of tools is not known", "--tool-call-parser"},
};

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace

std::string with_options(const std::string& message) {
  std::string options;
  for (const Advice& advice : kAdvice) {
    if (!has(message, advice.fact) || has(message, advice.option)) continue;
    options += (options.empty() ? " (see " : ", ") + std::string(advice.option);
  }
  return options.empty() ? message : message + options + ")";
}

}  // namespace causeway::app
