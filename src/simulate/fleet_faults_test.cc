#include "simulate/fleet_faults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "simulate/fleet_simulation_state.h"
#include "simulate/testing/small_fleet.h"

namespace causeway::simulate::fleet_faults_test {
namespace {

using ::testing::HasSubstr;
using testing::make_workload;
using testing::run_well;

// One model of 3 GB that all requests ask for, on machines of `slices`.
FleetSimulationOptions faulty_fleet(FleetFaults faults, std::int64_t slices = 2,
                                    std::int64_t machines = 1) {
  FleetSimulationOptions options = testing::make_options(1, slices);
  options.machines = machines;
  options.models_max = 0;
  options.fleet.moves = true;
  options.keep_requests = true;
  options.faults = std::move(faults);
  options.lets_go = true;
  return options;
}

Workload eight_long_answers() {
  return fixed_workload({{.count = 8, .prompt = Tokens(50), .output = Tokens(400)}});
}

TEST(FleetFaults, RequestsOfALostSliceGoOnElsewhereBehindTheirTokens) {
  const auto calm = run_well(faulty_fleet({}), eight_long_answers());
  const Nanos half = calm.requests[0].ended / 2;
  const auto report = run_well(
      faulty_fleet({{half, SliceLoss{.slice = 0, .heard = millis(3), .back = seconds(1)}},
                    {half, SliceLoss{.slice = 1, .heard = millis(3), .back = seconds(1)}}}),
      eight_long_answers());
  EXPECT_EQ(report.slices_lost, 2);
  EXPECT_EQ(report.serving.total.completed, 8);
  EXPECT_EQ(report.serving.total.output_tokens, 8 * 400);
  EXPECT_EQ(report.fleet.resumed, 8);
  for (const ServedRequest& request : report.requests) {
    EXPECT_EQ(request.token_times.size(), 400u);
    EXPECT_GT(request.ended, calm.requests[0].ended + seconds(1));
  }
}

TEST(FleetFaults, WhereNoSliceReturnsRequestsEndInTime) {
  FleetSimulationOptions options = faulty_fleet({{millis(50), SliceLoss{.slice = 0}}}, 1);
  options.fleet.return_timeout = seconds(2);
  const auto report = run_well(options, eight_long_answers());
  EXPECT_EQ(report.serving.total.refused, 8);
  EXPECT_EQ(report.serving.unfinished, 0);
  for (const ServedRequest& request : report.requests) EXPECT_EQ(request.ended, millis(2050));
}

TEST(FleetFaults, ACancelledRequestEndsAlone) {
  const auto report =
      run_well(faulty_fleet({{millis(40), RequestCancel{3}}, {millis(40), RequestCancel{3}}}),
               eight_long_answers());
  EXPECT_EQ(report.serving.total.cancelled, 1);
  EXPECT_EQ(report.serving.total.completed, 7);
  EXPECT_EQ(report.requests[3].failure, "cancelled");
  EXPECT_LT(report.requests[3].ended, millis(60));
}

TEST(FleetFaults, ALinkThatHangsIsWaitedFor) {
  const auto first_token = [](FleetFaults faults) {
    const auto report = run_well(faulty_fleet(std::move(faults)), eight_long_answers());
    EXPECT_EQ(report.serving.total.completed, 8);
    return to_millis(report.requests[0].token_times[0]);
  };
  const double calm = first_token({});
  // 3 GB take 7.5 ms of the link.
  const LinkTrouble hangs{.machine = 0, .lasts = millis(500), .share = 0};
  EXPECT_NEAR(first_token({{millis(3), hangs}}), calm + 500, 10);
  const LinkTrouble slow{.machine = 0, .lasts = seconds(5), .share = 0.1};
  EXPECT_GT(first_token({{millis(0), slow}}), calm + 60);
}

// Models of 7 GB that come and go, on two machines with 8 GB for weights.
TEST(FleetFaults, TheFleetSeesWhatALinkGives) {
  const auto rates = [](FleetFaults faults) {
    FleetSimulationOptions options = faulty_fleet(std::move(faults), 1, 2);
    options.slice.models.clear();
    for (int i = 0; i < 6; ++i) {
      options.slice.models.push_back(testing::make_shape("m" + std::to_string(i), 70));
    }
    options.load_ahead = false;
    options.lets_go = false;
    const Workload workload = make_workload(1000, 20, 6);
    FleetSimulation simulation(options, workload);
    simulation.begin();
    while (simulation.step()) {
    }
    return std::pair(simulation.core().link_rate(fleet::LinkId(0)),
                     simulation.core().link_rate(fleet::LinkId(1)));
  };
  const LinkTrouble slow{.machine = 0, .lasts = seconds(500), .share = 0.5};
  const auto [half, whole] = rates({{millis(0), slow}});
  EXPECT_NEAR(half, 200e9, 15e9);
  EXPECT_NEAR(whole, 400e9, 20e9);
}

TEST(FleetFaults, AMachineIsDividedAnewWhileItServes) {
  for (const std::int64_t parts : {1, 4}) {
    const auto report = run_well(
        faulty_fleet(
            {{millis(60),
              MachineResize{
                  .machine = 1, .parts = parts, .drain_max = millis(20), .reopen = millis(300)}},
             {millis(70), MachineResize{.machine = 0, .parts = 1}}},
            2, 2),
        eight_long_answers());
    EXPECT_EQ(report.fleet.resizes, 2);
    EXPECT_EQ(report.slices, 1 + parts);
    EXPECT_EQ(report.serving.total.completed, 8);
    EXPECT_EQ(report.serving.total.output_tokens, 8 * 400);
  }
}

TEST(FleetFaults, TheFleetsClockMayJump) {
  for (const Nanos by : {seconds(5000), -seconds(5000)}) {
    const auto report = run_well(faulty_fleet({{millis(1), ClockJump{by}},
                                               {millis(80), SliceLoss{.slice = 0}},
                                               {millis(90), ClockJump{-by}}}),
                                 eight_long_answers());
    EXPECT_EQ(report.serving.total.completed, 8) << by.count;
  }
}

// What the device does meanwhile is seen behind it.
TEST(FleetFaults, APauseOfTheHostDelaysWhatIsSeen) {
  const auto calm = run_well(faulty_fleet({{seconds(100), HostPause{}}}), eight_long_answers());
  const auto report =
      run_well(faulty_fleet({{millis(50), HostPause{seconds(2)}}}), eight_long_answers());
  EXPECT_EQ(report.serving.total.completed, 8);
  EXPECT_EQ(report.requests[0].token_times.size(), 400u);
  for (const Nanos time : report.requests[0].token_times) {
    EXPECT_FALSE(time > millis(51) && time < millis(2050)) << time.count;
  }
  EXPECT_NEAR(to_seconds(report.requests[0].ended - calm.requests[0].ended), 2, 0.05);
}

TEST(FleetFaults, WithFaultsTheSameInputGivesTheSameReport) {
  FleetSimulationOptions options = faulty_fleet({{millis(20), SliceLoss{.slice = 1}},
                                                 {millis(30), RequestCancel{7}},
                                                 {millis(90), HostPause{millis(5)}}});
  options.slice.faults.error_rate = 0.01;
  const Workload workload = make_workload(60, 20, 1);
  EXPECT_EQ(to_json(run_well(options, workload)), to_json(run_well(options, workload)));
}

TEST(FleetFaults, RefusesSchedulesThatMakeNoSense) {
  const auto why = [](FleetFaults faults) {
    return run_fleet(faulty_fleet(std::move(faults)), {}).error().message;
  };
  EXPECT_THAT(why({{millis(2), RequestCancel{}}, {millis(1), RequestCancel{}}}),
              HasSubstr("fault 1 is earlier"));
  EXPECT_THAT(why({{millis(2), LinkTrouble{.machine = 1}}}), HasSubstr("fault 0 is of a machine"));
  EXPECT_THAT(why({{millis(2), LinkTrouble{.machine = 0, .share = 1.5}}}), HasSubstr("a share"));
  EXPECT_THAT(why({{millis(2), MachineResize{.parts = 0}}}), HasSubstr("number of parts"));
  EXPECT_THAT(why({{millis(2), MachineResize{.parts = 65}}}), HasSubstr("number of parts"));
  EXPECT_THAT(why({{millis(2), HostPause{-millis(1)}}}), HasSubstr("a time"));
  EXPECT_THAT(why({{millis(2), SliceLoss{.heard = millis(2), .back = millis(1)}}}),
              HasSubstr("a time"));
  FleetSimulationOptions at_home = faulty_fleet({{millis(2), LinkTrouble{.machine = 0}}});
  at_home.slice.reads_at_home = true;
  EXPECT_THAT(run_fleet(at_home, {}).error().message, HasSubstr("read at home"));
}

}  // namespace
}  // namespace causeway::simulate::fleet_faults_test
