#include "server/redis/reply.h"

#include <hiredis/hiredis.h>

#include <new>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "solver/base/out_of_memory.h"
#include "solver/base/quote.h"

namespace stowage {
namespace {

using Type = RedisReply::Type;

Type TypeOf(const redisReadTask* task) {
  switch (task->type) {
    case REDIS_REPLY_ERROR:
      return Type::kError;
    case REDIS_REPLY_STATUS:
      return Type::kStatus;
    default:
      return Type::kString;
  }
}

// Where hiredis has a reply built: a new one, or the place in the array that it is an element of.
RedisReply* PlaceOf(const redisReadTask* task) {
  if (task->parent == nullptr) return new (std::nothrow) RedisReply;
  auto* const array = static_cast<RedisReply*>(task->parent->obj);
  return &array->elements[static_cast<size_t>(task->idx)];
}

// Builds a reply of this type, whose contents `fill` writes. Null, for "no memory", rather than an
// exception through hiredis.
void* Create(const redisReadTask* task, Type type, absl::FunctionRef<void(RedisReply&)> fill) {
  RedisReply* const reply = PlaceOf(task);
  if (reply == nullptr) return nullptr;
  reply->type = type;
  const auto filled = [&] {
    fill(*reply);
    return true;
  };
  if (UnlessOutOfMemory(filled, false)) return reply;
  if (task->parent == nullptr) delete reply;
  return nullptr;
}

void* CreateString(const redisReadTask* task, char* bytes, size_t size) {
  return Create(task, TypeOf(task), [&](RedisReply& reply) { reply.text.assign(bytes, size); });
}

// A few bytes can announce an array of billions: the elements of all arrays are limited together.
void* CreateArray(const redisReadTask* task, int elements) {
  auto& total = *static_cast<size_t*>(task->privdata);
  const auto count = static_cast<size_t>(elements);
  if (elements < 0 || count > ReplyReader::kMaxElements - total) return nullptr;
  total += count;
  return Create(task, Type::kArray, [&](RedisReply& reply) { reply.elements.resize(count); });
}

void* CreateInteger(const redisReadTask* task, long long value) {
  return Create(task, Type::kInteger, [&](RedisReply& reply) { reply.integer = value; });
}

void* CreateNil(const redisReadTask* task) { return PlaceOf(task); }

void FreeReply(void* reply) { delete static_cast<RedisReply*>(reply); }

redisReplyObjectFunctions* Functions() {
  static redisReplyObjectFunctions functions = {CreateString, CreateArray, CreateInteger, CreateNil,
                                                FreeReply};
  return &functions;
}

absl::Status Garbage(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("what it sends is no reply of Redis: ", Quoted(what)));
}

}  // namespace

absl::string_view RedisReply::error_code() const {
  if (!is_error()) return {};
  return absl::string_view(text).substr(0, text.find(' '));
}

void ReplyReader::Free::operator()(redisReader* reader) const { redisReaderFree(reader); }

ReplyReader::ReplyReader() : reader_(redisReaderCreateWithFunctions(Functions())) {
  if (reader_ == nullptr) throw std::bad_alloc();
  reader_->privdata = &elements_;
}

ReplyReader::~ReplyReader() = default;

absl::Status ReplyReader::Feed(absl::string_view bytes) {
  bytes_ += bytes.size();
  if (bytes_ > kMaxBytes) return Garbage(absl::StrCat("it has more than ", kMaxBytes, " bytes"));
  if (redisReaderFeed(reader_.get(), bytes.data(), bytes.size()) == REDIS_OK) {
    return absl::OkStatus();
  }
  return Garbage(reader_->errstr);
}

absl::StatusOr<std::optional<RedisReply>> ReplyReader::Next() {
  void* complete = nullptr;
  if (redisReaderGetReply(reader_.get(), &complete) != REDIS_OK) return Garbage(reader_->errstr);
  if (complete == nullptr) return std::optional<RedisReply>();
  const std::unique_ptr<RedisReply> reply(static_cast<RedisReply*>(complete));
  elements_ = 0;
  bytes_ = reader_->len - reader_->pos;
  return std::optional<RedisReply>(std::move(*reply));
}

std::string FormatCommand(const std::vector<absl::string_view>& arguments) {
  std::string command = absl::StrCat("*", arguments.size(), "\r\n");
  for (const absl::string_view argument : arguments) {
    absl::StrAppend(&command, "$", argument.size(), "\r\n", argument, "\r\n");
  }
  return command;
}

}  // namespace stowage
