// What the headers of an HTTP request say of its latency targets: x-slo-ttft-ms, x-slo-tpot-ms, and
// from which share of them on it lags, x-slo-ttft-slack and x-slo-tpot-slack. Checked already.
#pragma once

#include <optional>

#include "request/slo.h"

namespace causeway::server {

struct SloHeaders {
  std::optional<Nanos> ttft, tpot;
  std::optional<double> ttft_slack, tpot_slack;

  // `standard`: what holds where they say nothing.
  request::Slo over(const request::Slo& standard) const {
    return {.ttft = ttft.value_or(standard.ttft),
            .tpot = tpot.value_or(standard.tpot),
            .ttft_slack = ttft_slack.value_or(standard.ttft_slack),
            .tpot_slack = tpot_slack.value_or(standard.tpot_slack)};
  }
};

}  // namespace causeway::server
