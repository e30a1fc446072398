// A fleet that tests make up: slices that share a link, models of 100 MB groups.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "simulate/fleet_simulation.h"
#include "simulate/testing/shapes.h"

namespace causeway::simulate::testing {

// A model of `groups` × 100 MB.
inline ModelShape make_shape(const std::string& name, int groups) {
  ModelShape shape;
  shape.name = name;
  shape.weights = Bytes(100'000'000) * groups;
  shape.weights_always = shape.weights;
  shape.flops_per_token = 2e9;
  shape.flops_per_context_token = 100'000;
  shape.kv_per_token = Bytes(100'000);
  shape.tokens_per_block = Tokens(32);
  shape.max_model_len = Tokens(4096);
  shape.vocab = 32'000;
  shape.config.layers = groups - 2;
  shape.config.tied_embeddings = true;
  add_groups(groups, Bytes(100'000'000), shape);
  return shape;
}

// Slices of 12 GB, of which 4 are for KV, on one link of 400 GB/s.
inline FleetSimulationOptions make_options(int models, std::int64_t slices, int groups = 30) {
  FleetSimulationOptions options;
  options.slice.profile = slice_of(find_profile("gh200").value(), 7);
  options.slice.profile.memory = gib(12);
  options.slice.kv_memory = gib(4);
  for (int i = 0; i < models; ++i) {
    options.slice.models.push_back(make_shape("m" + std::to_string(i), groups));
  }
  options.slices = slices;
  options.fleet = {.waiting_max = 10'000,
                   .loads_max = slices,
                   .room_timeout = seconds(60),
                   .drain_after = seconds(2)};
  return options;
}

inline Workload make_workload(std::int64_t requests, double per_second, std::size_t models) {
  return poisson_workload({.requests = requests,
                           .per_second = per_second,
                           .models = models,
                           .prompt_mean = Tokens(100),
                           .output_mean = Tokens(20),
                           .slo = {}});
}

inline FleetSimulationReport run_well(const FleetSimulationOptions& options,
                                      const Workload& workload) {
  auto report = run_fleet(options, workload);
  EXPECT_TRUE(report.ok()) << report.error().message;
  return report.ok() ? std::move(report).value() : FleetSimulationReport();
}

}  // namespace causeway::simulate::testing
