#include "client/cli/experiment/experiment_view.h"

#include <cstdint>

#include "proto/convert/answer_message.h"
#include "proto/convert/chain_message.h"
#include "solver/bounds/memory_range.h"
#include "solver/model/modes.h"

namespace stowage {
namespace {

void AddAnswer(const Measurement& row, v1::ExperimentPoint* point) {
  v1::ExperimentAnswer& answer = *point->add_answers();
  answer.set_outcome(row.outcome);
  answer.set_solver(row.schedule_of);
  answer.set_solve_seconds(row.solve_seconds);
  if (row.prediction.has_value()) Fill(*row.prediction, answer.mutable_prediction());
  if (const auto ratio = row.RatioToBound()) answer.set_transfer_ratio(*ratio);
}

void AddPoints(const NetworkProfile& network, const std::vector<Measurement>& rows,
               v1::ExperimentNetwork* message) {
  const Measurement* before = nullptr;
  for (const Measurement& row : rows) {
    if (row.network != network.name) continue;
    if (before == nullptr || before->platform != row.platform || before->alpha != row.alpha) {
      v1::ExperimentPoint& point = *message->add_points();
      *point.mutable_platform() = ToMessage(row.platform);
      point.set_alpha(row.alpha);
      point.set_transfer_bound_seconds(row.transfer_bound_seconds);
    }
    AddAnswer(row, message->mutable_points(message->points_size() - 1));
    before = &row;
  }
}

void Fill(const Summary& summary, v1::ExperimentSummary* message) {
  message->set_points(static_cast<int64_t>(summary.points));
  message->set_common_points(static_cast<int64_t>(summary.common_points));
  for (const Record& record : summary.records) {
    v1::SolverRecord& solver = *message->add_solvers();
    solver.set_solver(record.solver);
    solver.set_points(record.points);
    solver.set_feasible(record.feasible);
    solver.set_cheap(record.cheap);
    solver.set_wins(record.wins);
    if (record.mean_overhead.has_value()) solver.set_mean_overhead(*record.mean_overhead);
    if (record.share_of_rotor.has_value()) solver.set_share_of_rotor(*record.share_of_rotor);
  }
}

}  // namespace

void Fill(const std::vector<NetworkProfile>& networks, const std::vector<Measurement>& rows,
          const Summary& summary, v1::Experiment* message) {
  for (const NetworkProfile& network : networks) {
    v1::ExperimentNetwork& shown = *message->add_networks();
    shown.set_name(network.name);
    shown.set_stages(network.chain.length());
    shown.set_store_all_seconds(ComputeSeconds(network.chain));
    shown.set_memory_floor_bytes(FloorOfMemory(network.chain).bytes);
    shown.set_most_memory_bytes(StoreAllPeakBytes(network.chain));
    AddPoints(network, rows, &shown);
  }
  Fill(summary, message->mutable_summary());
}

}  // namespace stowage
