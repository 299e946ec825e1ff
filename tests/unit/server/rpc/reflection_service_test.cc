#include "server/rpc/reflection_service.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "grpcpp/grpcpp.h"
#include "server/rpc/callers/admission.h"
#include "server/rpc/messages/unsent_bytes.h"
#include "stowage/v1/errors.pb.h"
#include "stowage/v1/model.pb.h"
#include "stowage/v1/operator.pb.h"
#include "stowage/v1/plan.pb.h"
#include "stowage/v1/scheduler.pb.h"
#include "stowage/v1/status.pb.h"
#include "stowage/v1/view.pb.h"
#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

namespace reflection = grpc::reflection::v1alpha;

class ReflectionServiceTest : public testing::Test {
 protected:
  ReflectionServiceTest() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
  }

  // The end of a stream with one request.
  grpc::Status ListServices() const {
    const auto stub = reflection::ServerReflection::NewStub(
        grpc::CreateChannel(absl::StrCat("127.0.0.1:", port_), grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    const auto stream = stub->ServerReflectionInfo(&context);
    reflection::ServerReflectionRequest request;
    request.set_list_services("*");
    stream->Write(request);
    reflection::ServerReflectionResponse response;
    stream->Read(&response);
    stream->WritesDone();
    return stream->Finish();
  }

  int port_ = 0;
  Admission admission_{{}};
  Timers timers_;
  DelayedRefusals refusals_{timers_, DelayedRefusals::Limits()};
  ReflectionService service_{{v1::SolveRequest::descriptor()->file()}, admission_, refusals_};
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(ReflectionServiceTest, ItsAnswersCountAmongThoseThatWaitToBeRead) {
  EXPECT_TRUE(ListServices().ok());
  {
    constexpr int64_t kPart = UnsentBytes::kSmallBytes;
    UnsentBytes others;
    for (int64_t taken = 0; taken < UnsentBytes::kMaxBytes / 4; taken += kPart) {
      ASSERT_THAT(others.Take(kPart, "127.0.0.1"), IsOk());
    }
    const grpc::Status refused = ListServices();
    EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
    EXPECT_NE(refused.error_message().find("wait to be read"), std::string::npos);
  }
  EXPECT_TRUE(ListServices().ok());
}

// Whose compilers make packages of them, which callers would otherwise have to name.
TEST(ReflectedFiles, NameThePackagesOfOtherLanguages) {
  for (const google::protobuf::Descriptor* const message :
       {v1::ErrorStatus::descriptor(), v1::Chain::descriptor(), v1::ListSolvesRequest::descriptor(),
        v1::SavedPlan::descriptor(), v1::SolveRequest::descriptor(), v1::ServerStatus::descriptor(),
        v1::View::descriptor()}) {
    const google::protobuf::FileDescriptor* const file = message->file();
    EXPECT_EQ(file->options().go_package(), "stowage/v1;stowagev1") << file->name();
    EXPECT_EQ(file->options().java_package(), "stowage.v1") << file->name();
    EXPECT_TRUE(file->options().java_multiple_files()) << file->name();
    EXPECT_EQ(file->options().csharp_namespace(), "Stowage.V1") << file->name();
  }
}

}  // namespace
}  // namespace stowage
