// Models as Zipf's law asks for them, one request after the other: most are cached, some come from
// home.
#include <utility>

#include "base/random.h"
#include "bench/neighbour.h"
#include "bench/switch_stage.h"
#include "bench/zipf.h"

namespace causeway::bench {
namespace {

constexpr double kExponent = 1;
constexpr std::int64_t kRequests = 4;  // a round

// Of the models from `first` on.
Status zipf_order(SwitchStage& stage, std::int64_t first, const std::string& where,
                  std::vector<Figure>& rows) {
  stage.say("models in Zipf order" + where);
  const Zipf zipf(stage.models() - first, kExponent);
  Random random(7);
  SwitchSamples samples;
  double from_home = 0;
  const std::int64_t requests = stage.settings().rounds * kRequests;
  for (std::int64_t i = 0; i < requests; ++i) {
    CAUSEWAY_ASSIGN(const Asked asked,
                    stage.ask(first + zipf.choose(random), stage.settings().output));
    samples.add(asked);
    from_home += asked.crossed > Bytes(0) ? 1 : 0;
  }
  rows.push_back(figure_of("first token, Zipf order" + where, samples.first));
  rows.push_back(figure_of("second token, Zipf order" + where, samples.second));
  rows.push_back(figure_of("between tokens, Zipf order" + where, samples.gaps));
  const double share = 100 * from_home / static_cast<double>(requests);
  rows.push_back(
      figure_of("requests whose model came, Zipf order" + where, Samples{{share}}).in("%"));
  return {};
}

}  // namespace

Status measure_zipf(SwitchStage& stage, std::vector<Figure>& rows) {
  CAUSEWAY_TRY(zipf_order(stage, 0, "", rows));
  if (stage.settings().neighbour.batch < 1) return {};
  Neighbour neighbour(stage.local(), stage.settings().neighbour);
  CAUSEWAY_TRY(neighbour.start());
  CAUSEWAY_TRY(zipf_order(stage, 1, kBeside, rows));
  CAUSEWAY_TRY(neighbour.wait(1));
  return neighbour.stop();
}

}  // namespace causeway::bench
