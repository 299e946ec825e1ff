// Real Redis nodes of a test, alone or as a cluster.
#ifndef STOWAGE_TESTS_SUPPORT_REDIS_NODES_H_
#define STOWAGE_TESTS_SUPPORT_REDIS_NODES_H_

#include <memory>
#include <string>
#include <vector>

#include "tests/support/certificates.h"
#include "tests/support/files.h"
#include "tests/support/process.h"

namespace stowage {

// Nodes on the loopback device, at an address of this process alone (127.0.0.0/8 is all loopback),
// so that tests that run at a time never share a port. They write nothing to disk but the cluster's
// own files. Killed by the destructor.
class RedisNodes {
 public:
  // Starts so many with these flags, and returns when all answer. Throws std::runtime_error.
  explicit RedisNodes(int count, const std::vector<std::string>& flags = {});

  // The address of all nodes of this process.
  static std::string Host();

  std::string address(size_t node) const;
  // As --shared-cache takes it.
  std::string Url() const;
  BackgroundProgram& node(size_t node) { return *nodes_[node]; }
  void Kill(size_t node) { nodes_[node].reset(); }
  // Starts a node again that was killed.
  void Start(size_t node);
  size_t size() const { return nodes_.size(); }

  // What redis-cli prints when it sends a command to the node.
  std::string Ask(size_t node, const std::vector<std::string>& command) const;

 private:
  void WaitUntilItAnswers(size_t node) const;
  bool HasTls() const;
  std::string ValueOf(const std::string& flag) const;

  const int first_port_;
  const std::vector<std::string> flags_;
  const TempFolder folder_;
  std::vector<std::unique_ptr<BackgroundProgram>> nodes_;
};

// Three masters, then their three replicas.
class RedisClusterNodes : public RedisNodes {
 public:
  explicit RedisClusterNodes(const std::vector<std::string>& flags = {});

  // From now on a node that does not answer for a second counts as failed. On a busy machine that
  // happens to nodes that are well.
  void FailQuickly();
};

// The flags of nodes with that certificate, whose callers need one of the authority.
std::vector<std::string> TlsRedisFlags(const Pair& server, const Pair& authority);

}  // namespace stowage

#endif  // STOWAGE_TESTS_SUPPORT_REDIS_NODES_H_
