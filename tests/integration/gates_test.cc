// What asks whether a job fits before it starts: the init container of the Kubernetes job, and the
// command that submits to Slurm. Both run as they are, with the real command line and server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/files.h"
#include "tests/support/process.h"
#include "yaml-cpp/yaml.h"

namespace stowage {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

using Labels = std::map<std::string, std::string>;

// Of the job beside the manifest: GPT-2, which takes 23.7 GiB as it is and 11.4 GiB at least.
constexpr char kFits[] = "40GB", kFitsWithPlan[] = "16GB", kDoesNotFit[] = "4GB";

constexpr char kExampleJob[] = STOWAGE_DEPLOY "/kubernetes/admit/job.json";

// Where programs are found: this build's, before the system's.
std::string SearchPath(const std::string& first = "") {
  const std::string built = std::filesystem::path(Program("stowage")).parent_path();
  return absl::StrCat("PATH=", first, first.empty() ? "" : ":", built, ":/usr/bin:/bin");
}

YAML::Node Manifest(const std::string& file) {
  return YAML::LoadFile(absl::StrCat(STOWAGE_DEPLOY, "/kubernetes/admit/", file));
}

YAML::Node Pod() { return Manifest("job.yaml")["spec"]["template"]; }

std::map<std::string, std::string> Environment(const YAML::Node& container) {
  std::map<std::string, std::string> values;
  for (const YAML::Node& entry : container["env"]) {
    values[entry["name"].as<std::string>()] = entry["value"].as<std::string>();
  }
  return values;
}

class KubernetesGate : public testing::Test {
 protected:
  // Runs the init container's command in its environment, with this machine's paths in it.
  ProgramResult Run(const std::string& server, const std::string& memory) {
    const YAML::Node gate = Pod()["spec"]["initContainers"][0];
    std::map<std::string, std::string> environment = Environment(gate);
    environment["SERVER"] = server;
    environment["MEMORY"] = memory;
    environment["JOB"] = kExampleJob;
    environment["PLAN"] = plan_;
    environment["MESSAGE"] = message_;
    EXPECT_EQ(environment.size(), 5U);  // no path of the container is left
    std::vector<std::string> argv{"/usr/bin/env", SearchPath()};
    for (const auto& [name, value] : environment) argv.push_back(absl::StrCat(name, "=", value));
    for (const char* part : {"command", "args"}) {
      for (const YAML::Node& word : gate[part]) argv.push_back(word.as<std::string>());
    }
    return RunProgram(argv);
  }

  const TempFolder folder_;
  const std::string plan_ = folder_.Path("plan.json");
  const std::string message_ = folder_.Path("message");
};

TEST_F(KubernetesGate, LetsTheJobStartWhereItFitsAndLeavesThePlan) {
  const ServerProcess server;
  EXPECT_EQ(Run(server.address(), kFits).exit_code, 0);
  EXPECT_THAT(ReadFile(message_), HasSubstr("fits: takes"));
  EXPECT_FALSE(std::filesystem::exists(plan_));

  EXPECT_EQ(Run(server.address(), kFitsWithPlan).exit_code, 0);
  EXPECT_THAT(ReadFile(message_), HasSubstr("fits with a plan"));
  EXPECT_THAT(ReadFile(plan_), HasSubstr("operations"));
}

TEST_F(KubernetesGate, StopsThePodWithAReason) {
  const ServerProcess server;
  EXPECT_EQ(Run(server.address(), kDoesNotFit).exit_code, 2);
  EXPECT_THAT(ReadFile(message_), HasSubstr("does not fit"));
  EXPECT_EQ(Run("unix:" + folder_.Path("nobody"), kFits).exit_code, 4);
  EXPECT_THAT(ReadFile(message_), HasSubstr("no answer from a server"));
  EXPECT_FALSE(std::filesystem::exists(plan_));
}

// The memory of the manifest is one that its job fits.
TEST_F(KubernetesGate, TheExampleStarts) {
  const ServerProcess server;
  const auto environment = Environment(Pod()["spec"]["initContainers"][0]);
  EXPECT_EQ(Run(server.address(), environment.at("MEMORY")).exit_code, 0);
}

TEST(KubernetesJob, EndsWhereItDoesNotFit) {
  const YAML::Node job = Manifest("job.yaml")["spec"];
  EXPECT_EQ(job["template"]["spec"]["restartPolicy"].as<std::string>(), "Never");
  const YAML::Node rule = job["podFailurePolicy"]["rules"][0];
  EXPECT_EQ(rule["action"].as<std::string>(), "FailJob");
  EXPECT_EQ(rule["onExitCodes"]["containerName"].as<std::string>(),
            Pod()["spec"]["initContainers"][0]["name"].as<std::string>());
  EXPECT_EQ(rule["onExitCodes"]["values"].as<std::vector<int>>(), (std::vector<int>{1, 2}));
}

TEST(KubernetesJob, TrainingFindsThePlanWhereTheGateWroteIt) {
  const YAML::Node pod = Pod()["spec"];
  const std::string plan = Environment(pod["initContainers"][0]).at("PLAN");
  EXPECT_EQ(Environment(pod["containers"][0]).at("PLAN"), plan);
  for (const YAML::Node& container : {pod["initContainers"][0], pod["containers"][0]}) {
    std::map<std::string, std::string> paths;
    for (const YAML::Node& mount : container["volumeMounts"]) {
      paths[mount["name"].as<std::string>()] = mount["mountPath"].as<std::string>();
    }
    EXPECT_THAT(plan, StartsWith(paths.at("plan") + "/"));
  }
}

TEST(KubernetesJob, NetworkPolicyFindsThePodsAndReachesTheServers) {
  const YAML::Node policy = Manifest("network.yaml")["spec"];
  EXPECT_EQ(policy["podSelector"]["matchLabels"].as<Labels>(),
            Pod()["metadata"]["labels"].as<Labels>());
  const YAML::Node servers = policy["egress"][0];
  const YAML::Node service =
      YAML::LoadAllFromFile(STOWAGE_DEPLOY "/kubernetes/base/service.yaml")[0]["spec"];
  EXPECT_EQ(servers["to"][0]["podSelector"]["matchLabels"].as<Labels>(),
            service["selector"].as<Labels>());
  const std::string port = service["ports"][0]["port"].as<std::string>();
  EXPECT_EQ(servers["ports"][0]["port"].as<std::string>(), port);
  EXPECT_EQ(Environment(Pod()["spec"]["initContainers"][0]).at("SERVER"),
            absl::StrCat("stowage.stowage.svc.cluster.local:", port));
}

TEST(KubernetesJob, TlsAndTokenAreTheCommandLines) {
  const std::string overlay = ReadFile(STOWAGE_DEPLOY "/kubernetes/admit-tls/kustomization.yaml");
  const std::string help = RunProgram({Program("stowage"), "admit", "--help"}).out;
  for (const char* variable : {"STOWAGE_TLS_CA", "STOWAGE_TOKEN_FILE"}) {
    EXPECT_THAT(overlay, HasSubstr(absl::StrCat("name: ", variable, "\n")));
    EXPECT_THAT(help, HasSubstr(absl::StrCat("Env:", variable, ")")));
  }
}

class SlurmGate : public testing::Test {
 protected:
  SlurmGate() {
    std::filesystem::create_directory(folder_.Path("bin"));
    folder_.Write("bin/sbatch", "#!/bin/sh\necho \"PLAN=${PLAN-none} $*\"\n");
    std::filesystem::permissions(folder_.Path("bin/sbatch"), std::filesystem::perms::owner_all);
    std::filesystem::copy(kExampleJob, folder_.Path("job.json"));
  }

  // Runs sbatch-admit in the folder, with a plan of an earlier job in the environment.
  ProgramResult Run(const std::vector<std::string>& arguments) {
    std::vector<std::string> argv{"/usr/bin/env", absl::StrCat("--chdir=", folder_.Path("")),
                                  "PLAN=stale", SearchPath(folder_.Path("bin")),
                                  STOWAGE_DEPLOY "/slurm/sbatch-admit"};
    argv.insert(argv.end(), arguments.begin(), arguments.end());
    return RunProgram(argv);
  }

  // A batch script whose line for the gate has `words`.
  void Write(const std::string& words) {
    folder_.Write("batch.sh", absl::StrCat("#!/bin/sh\n#SBATCH -N1\n#STOWAGE ", words, "\n"));
  }

  std::vector<std::string> Plans() {
    std::vector<std::string> plans;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.Path(""))) {
      const std::string name = entry.path().filename();
      if (name.starts_with("stowage-plan-")) plans.push_back(name);
    }
    return plans;
  }

  const TempFolder folder_;
};

TEST_F(SlurmGate, SubmitsWhereTheJobFitsAndPassesThePlan) {
  const ServerProcess server;
  for (const std::vector<std::string>& where :
       {std::vector<std::string>{"--server", server.address()}, {"--local"}}) {
    SCOPED_TRACE(where[0]);
    const auto run = [&](std::vector<std::string> arguments) {
      arguments.insert(arguments.begin(), where.begin(), where.end());
      return Run(arguments);
    };
    Write(absl::StrCat("job=job.json memory=", kFits));
    ProgramResult result = run({"-p", "gpu", "batch.sh", "one"});
    EXPECT_EQ(result.exit_code, 0) << result;
    EXPECT_EQ(result.out, "PLAN=none -p gpu batch.sh one\n");
    EXPECT_THAT(Plans(), IsEmpty());

    // A flag is before what the script says.
    result = run({"--memory", kFitsWithPlan, "batch.sh"});
    EXPECT_EQ(result.exit_code, 0) << result;
    ASSERT_EQ(Plans().size(), 1U);
    const std::string plan = folder_.Path(Plans()[0]);
    EXPECT_THAT(result.out, HasSubstr(Plans()[0] + " batch.sh\n"));
    EXPECT_THAT(ReadFile(plan), HasSubstr("operations"));
    std::filesystem::remove(plan);

    result = run({"--memory", kDoesNotFit, "batch.sh"});
    EXPECT_EQ(result.exit_code, 2) << result;
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err, AllOf(HasSubstr("11.40 GiB at least"), HasSubstr("not submitted")));
    EXPECT_THAT(Plans(), IsEmpty());
  }
}

TEST_F(SlurmGate, NoAnswerKeepsNothingFromBeingSubmittedUnlessItIsStrict) {
  const std::string nobody = "unix:" + folder_.Path("nobody");
  Write(absl::StrCat("job=job.json memory=", kFits));
  ProgramResult result = Run({"--server", nobody, "batch.sh"});
  EXPECT_EQ(result.exit_code, 0) << result;
  EXPECT_EQ(result.out, "PLAN=none batch.sh\n");
  EXPECT_THAT(result.err, HasSubstr("submitted although stowage did not answer"));
  result = Run({"--strict", "--server", nobody, "batch.sh"});
  EXPECT_EQ(result.exit_code, 1) << result;
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(Plans(), IsEmpty());
}

TEST_F(SlurmGate, LinesMayEndAsTheyDoElsewhere) {
  for (const char* end : {"", "\r\n"}) {
    folder_.Write("other.sh",
                  absl::StrCat("#!/bin/sh\n#STOWAGE job=job.json memory=", kDoesNotFit, end));
    EXPECT_EQ(Run({"--local", "other.sh"}).exit_code, 2);
  }
  EXPECT_EQ(
      Run({"--local", "--job=job.json", absl::StrCat("--memory=", kDoesNotFit), "--wrap", "x"})
          .exit_code,
      2);
}

TEST_F(SlurmGate, WhatSaysNothingOfAJobIsSubmittedAsItIs) {
  folder_.Write("plain.sh", "#!/bin/sh\n");
  EXPECT_EQ(Run({"plain.sh", "one"}).out, "PLAN=stale plain.sh one\n");
  EXPECT_EQ(Run({"--wrap", "hostname"}).out, "PLAN=stale --wrap hostname\n");
}

TEST_F(SlurmGate, MistakesAreNamedAndNothingIsSubmitted) {
  const auto error_of = [&](const std::vector<std::string>& arguments) {
    const ProgramResult result = Run(arguments);
    EXPECT_EQ(result.exit_code, 1) << result;
    EXPECT_EQ(result.out, "");
    return result.err;
  };
  Write("job=job.json memry=40GB");
  EXPECT_THAT(error_of({"batch.sh"}), HasSubstr("#STOWAGE memry=40GB: is not known"));
  Write("job=job.json");
  EXPECT_THAT(error_of({"batch.sh"}), HasSubstr("--memory: is missing"));
  EXPECT_THAT(error_of({"--memory", "40GB", "--wrap", "x"}), HasSubstr("--job: is missing"));
  EXPECT_THAT(error_of({"--job"}), HasSubstr("--job: has no value"));
  EXPECT_THAT(error_of({"-p", "gpu", "--job=job.json", "batch.sh"}),
              HasSubstr("--job=job.json: stands behind a flag of sbatch"));
  // A mistake is no server that is down.
  Write("job=jbo.json memory=40GB");
  EXPECT_THAT(error_of({"--local", "batch.sh"}),
              AllOf(HasSubstr("jbo.json"), HasSubstr("not submitted")));
  Write("job=job.json memory=40XB");
  EXPECT_THAT(error_of({"--local", "batch.sh"}), HasSubstr("--memory"));
}

}  // namespace
}  // namespace stowage
