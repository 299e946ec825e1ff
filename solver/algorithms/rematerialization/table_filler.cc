#include "solver/algorithms/rematerialization/table_filler.h"

#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

#include "solver/base/thread_pool.h"

namespace stowage {
namespace {

// The tiles of a chunk, diagonal by diagonal: each comes after those to its left and below it.
struct Tile {
  int row = 0;
  int column = 0;
};

std::vector<Tile> TilesInOrder(int tiles) {
  std::vector<Tile> order;
  for (int apart = 0; apart < tiles; ++apart) {
    for (int row = tiles - 1 - apart; row >= 0; --row) order.push_back({row, row + apart});
  }
  return order;
}

// Fills all chunks with any number of threads. Threads claim tiles in one global order: by chunk,
// then by TilesInOrder(). A tile may start once all previous chunks and, in its own chunk, the
// tiles to its left and below it are filled. Every such tile is earlier in the order and hence
// already claimed by some thread, so waiting cannot deadlock.
class TableFiller {
 public:
  TableFiller(const TableView& view, const SolveContext& context)
      : view_(view),
        context_(context),
        tiles_((view.blocks + kTile - 1) / kTile),
        order_(TilesInOrder(tiles_)),
        done_(static_cast<size_t>(tiles_) * static_cast<size_t>(tiles_)),
        total_(order_.size() * static_cast<size_t>(view.chunks)),
        caller_(std::this_thread::get_id()) {}

  // Returns false if the solve was cancelled.
  bool Run() {
    const auto work = [this] { Work(); };
    // Tiles of shorter chains wait for one another for longer than they are filled.
    constexpr int kMinTiles = 5;  // along a side; 32 stages each
    if (context_.threads != nullptr && tiles_ >= kMinTiles) {
      context_.threads->RunOnFreeThreads(work);
    } else {
      work();
    }
    return !stopped_.load();
  }

 private:
  void Work() {
    // Progress must be reported from the calling thread only.
    const bool reports = std::this_thread::get_id() == caller_;
    while (true) {
      const size_t claimed = next_.fetch_add(1);
      if (claimed >= total_) return;
      const Tile tile = order_[claimed % order_.size()];
      const int chunk = static_cast<int>(claimed / order_.size());
      if (!WaitFor(tile, chunk)) return;
      FillTile(view_, chunk, tile.row * kTile, tile.column * kTile);
      Done(tile).store(chunk + 1, std::memory_order_release);
      completed_.fetch_add(1, std::memory_order_release);
      if (reports) context_.Report(static_cast<double>(claimed + 1) / static_cast<double>(total_));
    }
  }

  // Blocks until the tile may start. Returns false once the solve is cancelled.
  bool WaitFor(const Tile& tile, int chunk) {
    const size_t before = static_cast<size_t>(chunk) * order_.size();
    for (int turns = 0;; ++turns) {
      if (context_.stop.stop_requested()) stopped_.store(true);
      if (stopped_.load()) return false;
      const bool ready =
          completed_.load(std::memory_order_acquire) >= before &&
          (tile.row == tile.column ||
           (Done({tile.row + 1, tile.column}).load(std::memory_order_acquire) > chunk &&
            Done({tile.row, tile.column - 1}).load(std::memory_order_acquire) > chunk));
      if (ready) return true;
      // Waits are short, a fraction of a tile: spin first.
      constexpr int kTurnsBeforeYield = 100;
      if (turns > kTurnsBeforeYield) std::this_thread::yield();
    }
  }

  std::atomic<int>& Done(const Tile& tile) {
    return done_[static_cast<size_t>(tile.row) * static_cast<size_t>(tiles_) +
                 static_cast<size_t>(tile.column)];
  }

  const TableView& view_;
  const SolveContext& context_;
  const int tiles_;
  const std::vector<Tile> order_;
  std::vector<std::atomic<int>> done_;  // by tile: chunks filled
  const size_t total_;
  const std::thread::id caller_;
  std::atomic<size_t> next_{0};
  std::atomic<size_t> completed_{0};
  std::atomic<bool> stopped_{false};
};

}  // namespace

bool FillTable(const TableView& view, const SolveContext& context) {
  return TableFiller(view, context).Run();
}

}  // namespace stowage
