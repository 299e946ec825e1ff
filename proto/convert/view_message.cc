#include "proto/convert/view_message.h"

#include <cstddef>
#include <cstdint>

#include "proto/convert/answer_message.h"

namespace stowage {

void Fill(const ExplainedSimulation& simulation, const std::vector<MemoryByKind>& memory,
          v1::ViewedSchedule* message) {
  *message->mutable_simulation() = ToMessage(simulation);
  message->mutable_details()->Reserve(static_cast<int>(memory.size()));
  for (size_t i = 0; i < memory.size(); ++i) {
    v1::OperationDetail& detail = *message->add_details();
    detail.set_output_bytes(memory[i].output_bytes);
    detail.set_saved_bytes(memory[i].saved_bytes);
    detail.set_gradient_bytes(memory[i].gradient_bytes);
    detail.set_overhead_bytes(memory[i].overhead_bytes);
    if (simulation.timeline[i].waits_for.has_value()) {
      detail.set_waits_for(static_cast<int64_t>(*simulation.timeline[i].waits_for));
    }
  }
}

}  // namespace stowage
