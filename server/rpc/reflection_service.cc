#include "server/rpc/reflection_service.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/descriptor.pb.h"
#include "grpcpp/support/slice.h"
#include "server/rpc/calls/brief_call.h"
#include "server/rpc/calls/call.h"
#include "server/rpc/messages/message_limits.h"
#include "server/rpc/messages/unsent_bytes.h"

namespace stowage {
namespace {

using google::protobuf::DescriptorPool;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;
using grpc::reflection::v1alpha::ServerReflectionRequest;
using grpc::reflection::v1alpha::ServerReflectionResponse;

const DescriptorPool& Pool() { return *DescriptorPool::generated_pool(); }

absl::Status Read(const grpc::ByteBuffer& bytes, ServerReflectionRequest* request) {
  grpc::Slice slice;
  if (bytes.Length() <= kMaxBriefRequestBytes && bytes.DumpToSingleSlice(&slice).ok() &&
      request->ParseFromArray(slice.begin(), static_cast<int>(slice.size()))) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("the request is not a ",
                                                 request->GetDescriptor()->full_name(),
                                                 " of at most ", kMaxBriefRequestBytes, " bytes"));
}

void NotFound(ServerReflectionResponse* response) {
  response->mutable_error_response()->set_error_code(grpc::StatusCode::NOT_FOUND);
  response->mutable_error_response()->set_error_message("not found");
}

// Appends the file and those that it imports, each once.
void AddFile(const FileDescriptor& file, std::set<const FileDescriptor*>* added,
             grpc::reflection::v1alpha::FileDescriptorResponse* response) {
  if (!added->insert(&file).second) return;
  google::protobuf::FileDescriptorProto description;
  file.CopyTo(&description);
  response->add_file_descriptor_proto(description.SerializeAsString());
  for (int i = 0; i < file.dependency_count(); ++i) {
    AddFile(*file.dependency(i), added, response);
  }
}

// `file`: null where there is none.
void AnswerWithFile(const FileDescriptor* file, ServerReflectionResponse* response) {
  if (file == nullptr) return NotFound(response);
  std::set<const FileDescriptor*> added;
  AddFile(*file, &added, response->mutable_file_descriptor_response());
}

void AnswerWithExtensions(const std::string& type, ServerReflectionResponse* response) {
  const google::protobuf::Descriptor* const message = Pool().FindMessageTypeByName(type);
  if (message == nullptr) return NotFound(response);
  response->mutable_all_extension_numbers_response()->set_base_type_name(type);
  std::vector<const FieldDescriptor*> extensions;
  Pool().FindAllExtensions(message, &extensions);
  for (const FieldDescriptor* extension : extensions) {
    response->mutable_all_extension_numbers_response()->add_extension_number(extension->number());
  }
}

const FileDescriptor* FileOfExtension(const std::string& type, int number) {
  const google::protobuf::Descriptor* const message = Pool().FindMessageTypeByName(type);
  if (message == nullptr) return nullptr;
  const FieldDescriptor* const extension = Pool().FindExtensionByNumber(message, number);
  return extension == nullptr ? nullptr : extension->file();
}

void AddServices(const FileDescriptor& file, ServerReflectionResponse* response) {
  for (int i = 0; i < file.service_count(); ++i) {
    response->mutable_list_services_response()->add_service()->set_name(
        file.service(i)->full_name());
  }
}

ServerReflectionResponse ResponseTo(const ServerReflectionRequest& request,
                                    const std::vector<const FileDescriptor*>& files) {
  ServerReflectionResponse response;
  response.set_valid_host(request.host());
  *response.mutable_original_request() = request;
  switch (request.message_request_case()) {
    case ServerReflectionRequest::kFileByFilename:
      AnswerWithFile(Pool().FindFileByName(request.file_by_filename()), &response);
      break;
    case ServerReflectionRequest::kFileContainingSymbol:
      AnswerWithFile(Pool().FindFileContainingSymbol(request.file_containing_symbol()), &response);
      break;
    case ServerReflectionRequest::kFileContainingExtension: {
      const auto& extension = request.file_containing_extension();
      AnswerWithFile(FileOfExtension(extension.containing_type(), extension.extension_number()),
                     &response);
      break;
    }
    case ServerReflectionRequest::kAllExtensionNumbersOfType:
      AnswerWithExtensions(request.all_extension_numbers_of_type(), &response);
      break;
    case ServerReflectionRequest::kListServices:
      for (const FileDescriptor* file : files) AddServices(*file, &response);
      break;
    case ServerReflectionRequest::MESSAGE_REQUEST_NOT_SET:
      NotFound(&response);
      break;
  }
  return response;
}

// Reads a request, answers it, reads the next: at any time it has one of either. Deletes itself
// after its end.
class ReflectionStream final
    : public BriefCall<grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>> {
 public:
  ReflectionStream(grpc::CallbackServerContext& context,
                   const std::vector<const FileDescriptor*>& files, Admission& admission,
                   DelayedRefusals& refusals)
      : BriefCall(context, admission, refusals, /*request_bytes=*/0), files_(files) {
    if (!EndsAsRefused()) StartRead(&request_);
  }

 private:
  void OnReadDone(bool has_read) override {
    if (!has_read) return Finish(grpc::Status::OK);
    // The first request was counted with the stream.
    if (std::exchange(has_answered_, true) && EndsAsRefusedAgain()) return;
    ServerReflectionRequest request;
    absl::Status status = Read(request_, &request);
    request_.Clear();
    if (status.ok()) status = Serialize(ResponseTo(request, files_), &response_);
    const auto bytes = static_cast<int64_t>(response_.Length());
    if (status.ok()) status = unsent_.emplace().Take(bytes, caller().client);
    if (!status.ok()) return EndWith(status);
    caller().counted.Answer(response_.Length());
    StartWrite(&response_);
  }
  void OnWriteDone(bool has_written) override {
    if (!has_written) return Finish(grpc::Status::CANCELLED);
    response_.Clear();
    unsent_.reset();
    StartRead(&request_);
  }

  const std::vector<const FileDescriptor*>& files_;
  grpc::ByteBuffer request_;
  grpc::ByteBuffer response_;
  bool has_answered_ = false;
  std::optional<UnsentBytes> unsent_;  // of the response
};

}  // namespace

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>*
ReflectionService::ServerReflectionInfo(grpc::CallbackServerContext* context) {
  return new ReflectionStream(*context, files_, admission_, refusals_);
}

}  // namespace stowage
