#include <fmt/format.h>
#include <unistd.h>

#include <map>

#include "commands/command.h"
#include "model/random_model.h"

namespace causeway::app {
namespace {

const std::map<std::string, DType> kDTypes = {
    {"bf16", DType::kBF16}, {"f32", DType::kF32}, {"f16", DType::kF16}};

std::map<std::string, model::Family> families_by_name() {
  std::map<std::string, model::Family> named;
  for (const auto& traits : model::families()) named.emplace(traits.model_type, traits.family);
  return named;
}

void print_bytes_progress(Bytes done, Bytes total) {
  fmt::print(stderr, "\r{:.2f} of {:.2f} GB ", static_cast<double>(done.count) * 1e-9,
             static_cast<double>(total.count) * 1e-9);
}

// What the command line says of a size; 0: the family's default.
struct Sizes {
  std::int64_t layers = 0, hidden = 0, intermediate = 0, heads = 0, kv_heads = 0, head_dim = 0,
               rotary_dim = 0;
  std::int64_t vocab = 0, context = 0, window = 0, experts = 0, experts_per_token = 0,
               moe_intermediate = 0;
};

void replace(std::int64_t& value, std::int64_t given) {
  if (given > 0) value = given;
}

// Sizes that follow from others when only those are given: head_dim = hidden / heads, and an MLP of
// the usual width.
void apply(const Sizes& sizes, model::ModelConfig& config) {
  replace(config.layers, sizes.layers);
  replace(config.hidden, sizes.hidden);
  replace(config.heads, sizes.heads);
  replace(config.kv_heads, sizes.kv_heads);
  replace(config.vocab, sizes.vocab);
  if (sizes.hidden > 0 || sizes.heads > 0) config.head_dim = config.hidden / config.heads;
  if (sizes.hidden > 0) config.intermediate = 3 * config.hidden;
  replace(config.head_dim, sizes.head_dim);
  replace(config.rotary_dim, sizes.rotary_dim);
  replace(config.intermediate, sizes.intermediate);
  if (sizes.context > 0) config.max_position = Tokens(sizes.context);
  replace(config.sliding_window, sizes.window);
  if (!config.moe) return;
  if (sizes.hidden > 0) config.moe->intermediate = config.hidden;
  replace(config.moe->experts, sizes.experts);
  replace(config.moe->experts_per_token, sizes.experts_per_token);
  replace(config.moe->intermediate, sizes.moe_intermediate);
}

class MakeModel final : public Command {
 public:
  explicit MakeModel(Options& parent)
      : Command(parent, "make-model",
                "Write a model of random weights, with a working tokenizer and chat template") {
    auto& app = options();
    app.add_option("directory", directory_, "folder to write; must be empty or not exist");
    const auto families = families_by_name();
    app.add_choice("--family", family_, families, "family of the model").show_default("llama");
    app.add_option("--from-config", from_config_, "folder with a config.json whose sizes to take")
        .existing_folder();
    app.add_choice("--dtype", dtype_, kDTypes, "element type of the weights").show_default("bf16");
    declare_sizes();
    app.add_flag("--tied", tied_, "the output head is the embedding");
    app.add_option("--seed", random_.seed,
                   "seed of the weights; the same seed and sizes give the same bytes")
        .show_default();
    app.add_option("--max-shard-bytes", shard_bytes_,
                   "split the weights into files of at most this size")
        .in_bytes();
  }

  Status run() override {
    if (directory_.empty()) return invalid_argument("give the folder to write the model into");
    CAUSEWAY_ASSIGN(random_.config, from_config_.empty()
                                        ? Result(model::random_model_config(family_))
                                        : model::load_config(from_config_));
    apply(sizes_, random_.config);
    if (tied_) random_.config.tied_embeddings = true;
    if (from_config_.empty() || options().count("--dtype") > 0) {
      random_.config.dtype = dtype_;
    }
    random_.shard_bytes_max = Bytes(static_cast<std::int64_t>(shard_bytes_));
    const bool live = isatty(STDERR_FILENO) != 0;
    if (live) random_.progress = print_bytes_progress;
    CAUSEWAY_TRY(model::make_random_model(random_, directory_));
    if (live) fmt::print(stderr, "\n");
    fmt::print("{}: {:.1f} million parameters\n", directory_,
               static_cast<double>(model::parameter_count(random_.config)) * 1e-6);
    return {};
  }

 private:
  void declare_sizes() {
    const auto size = [this](const char* name, std::int64_t& value, const char* what) {
      options().add_option(name, value, what).positive().group("Sizes");
    };
    size("--layers", sizes_.layers, "layers");
    size("--hidden", sizes_.hidden, "width of the residual stream");
    size("--intermediate", sizes_.intermediate, "width of the MLP; default 3 × hidden");
    size("--heads", sizes_.heads, "attention heads");
    size("--kv-heads", sizes_.kv_heads, "heads of keys and values");
    size("--head-dim", sizes_.head_dim, "width of a head; default hidden ÷ heads");
    size("--rotary-dim", sizes_.rotary_dim, "elements of a head that RoPE rotates; default all");
    size("--vocab", sizes_.vocab, "tokens of the vocabulary");
    size("--context", sizes_.context, "longest sequence");
    size("--window", sizes_.window, "attention's sliding window (gemma, mistral, mixtral)");
    size("--experts", sizes_.experts, "experts of a sparse layer (mixtral, qwen3_moe)");
    size("--experts-per-token", sizes_.experts_per_token, "experts that a token uses");
    size("--moe-intermediate", sizes_.moe_intermediate, "width of an expert; default hidden");
  }

  std::string directory_, from_config_;
  model::Family family_ = model::Family::kLlama;
  DType dtype_ = DType::kBF16;
  Sizes sizes_;
  bool tied_ = false;
  std::uint64_t shard_bytes_ = 0;
  model::RandomModelOptions random_;
};

}  // namespace

std::unique_ptr<Command> make_make_model(Options& parent) {
  return std::make_unique<MakeModel>(parent);
}

}  // namespace causeway::app
