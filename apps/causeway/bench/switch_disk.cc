// A model that is not in host memory: from its files, in the page cache and not, as `serve` loads
// it.
#include <algorithm>

#include "bench/file_model.h"
#include "bench/switch_stage.h"
#include "catalogue/model_files.h"

namespace causeway::bench {
namespace {

constexpr std::int64_t kRoundsMax = 5;  // each reads the files twice

struct DiskSamples {
  Samples first, plain;  // ms
};

}  // namespace

Status measure_disk(SwitchStage& stage, std::vector<Figure>& rows) {
  if (!stage.settings().from_disk) return {};
  stage.say("writing a model's files");
  const Clock& clock = stage.local().clock();
  CAUSEWAY_ASSIGN(const BenchFolder folder, BenchFolder::open(stage.settings().disk_dir));
  const NamedConfig& config = stage.settings().configs.front();
  CAUSEWAY_ASSIGN(const auto path, write_model(folder.path(), config.name, config.config));
  CAUSEWAY_ASSIGN(const WeightFiles files, WeightFiles::open(path));
  CAUSEWAY_ASSIGN(const auto model,
                  FileModel::open(ModelId(stage.models()), path, stage.home(), stage.local()));
  for (const bool cached : {true, false}) {
    stage.say(cached ? "a model from the page cache" : "a model from the disk");
    const auto prepare = [&] {
      return cached ? files.bring_into_page_cache() : files.drop_from_page_cache();
    };
    DiskSamples samples;
    for (std::int64_t i = 0; i < std::min(stage.settings().rounds, kRoundsMax); ++i) {
      CAUSEWAY_TRY(prepare());
      CAUSEWAY_ASSIGN(const Nanos plain, files.read_plainly(!cached, clock));
      samples.plain.add(to_millis(plain));
      CAUSEWAY_TRY(prepare());
      const Nanos begin = clock.now();
      CAUSEWAY_TRY(model->load());
      const Nanos loaded = clock.now();
      CAUSEWAY_ASSIGN(const Asked asked, stage.ask(stage.models(), stage.settings().output));
      samples.first.add(to_millis(loaded - begin) + asked.first);
      CAUSEWAY_TRY(model->forget());
    }
    const char* const what =
        cached ? "first token, from files in the page cache" : "first token, from the disk";
    rows.push_back(
        figure_of(what, samples.first,
                  {.value = samples.plain.median(), .name = "a plain read of the files"}));
  }
  return {};
}

}  // namespace causeway::bench
