// Reads the latency targets in the headers of an HTTP request, checked: x-slo-ttft-ms,
// x-slo-tpot-ms, and the shares of them from which on it lags, x-slo-ttft-slack and
// x-slo-tpot-slack.
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
