// Bounds the memory of requests in flight: a client that sends many, or large ones, must not
// exhaust it.
#ifndef STOWAGE_SERVER_ENGINE_LIMITS_REQUEST_BYTES_H_
#define STOWAGE_SERVER_ENGINE_LIMITS_REQUEST_BYTES_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "solver/model/request.h"

namespace stowage {

// The bytes that the requests of each client hold at the moment. A client may hold as many as are
// still free: one alone half of them, and each of n clients that want all 1/(n+1), so that some are
// left for whoever comes next ("dynamic thresholds", Choudhury and Hahne 1998). Thread-safe.
class RequestBytes {
 private:
  struct Totals;

 public:
  explicit RequestBytes(int64_t max_bytes);

  // For bytes that are taken from now on: what is held stays, though it be more.
  void SetMaxBytes(int64_t max_bytes);
  int64_t max_bytes() const;

  // Bytes of one client, until it is destroyed or assigned to. May outlive the RequestBytes. A
  // default one holds none.
  class Hold {
   public:
    Hold() = default;
    ~Hold() { Release(); }
    Hold(Hold&& other) noexcept = default;
    Hold& operator=(Hold&& other) noexcept;

    // From now on the bytes are that client's, which may thereby hold more than it could Take().
    // May be called by several threads at once.
    void ChargeTo(const std::string& client) const;
    // From now on it holds so many, which are no more than before. Not with ChargeTo() at a time.
    void ShrinkTo(int64_t bytes);

   private:
    friend class RequestBytes;
    Hold(std::shared_ptr<Totals> totals, const std::string& client, int64_t bytes);
    void Release();

    std::shared_ptr<Totals> totals_;       // null: it holds none
    std::unique_ptr<std::string> client_;  // guarded by the lock of the totals
    int64_t bytes_ = 0;
  };

  // Errors: RESOURCE_EXHAUSTED where the client would hold more than is left.
  absl::StatusOr<Hold> Take(int64_t bytes, const std::string& client);

 private:
  const std::shared_ptr<Totals> totals_;
};

// What a chain takes, with its names and ways to save, and what a request takes in the engine,
// approximately: a solve's with its rounded instance.
int64_t BytesOf(const Chain& chain);
int64_t BytesOf(const SolveRequest& request);
int64_t BytesOf(const FrontierRequest& request);
int64_t BytesOf(const SimulateRequest& request);
// Beside the solves that it takes.
int64_t BytesOf(const AdmitRequest& request);

}  // namespace stowage

#endif  // STOWAGE_SERVER_ENGINE_LIMITS_REQUEST_BYTES_H_
