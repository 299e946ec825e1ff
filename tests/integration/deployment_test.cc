// The container and the manifests: flags that the server has, figures that agree with each other,
// packages that the programs need.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "solver/base/units.h"
#include "tests/integration/checked_answers.h"
#include "tests/integration/metrics.h"
#include "tests/integration/rpc.h"
#include "tests/support/files.h"
#include "tests/support/process.h"
#include "tests/support/redis_nodes.h"
#include "yaml-cpp/yaml.h"

namespace stowage {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsSubsetOf;
using testing::StartsWith;

using Labels = std::map<std::string, std::string>;

std::string Deploy(const std::string& path) { return absl::StrCat(STOWAGE_DEPLOY, "/", path); }

std::set<std::string> FlagsOf(const std::string& text) {
  std::set<std::string> flags;
  const std::regex flag("--[a-z][a-z-]*");
  for (std::sregex_iterator it(text.begin(), text.end(), flag), end; it != end; ++it) {
    flags.insert(it->str());
  }
  return flags;
}

const std::string& Help() {
  static const std::string help = RunProgram({Program("stowage-server"), "--help"}).out;
  return help;
}

// "30s" of: --grace DURATION=30s
std::string DefaultOf(const std::string& flag) {
  std::smatch match;
  EXPECT_TRUE(std::regex_search(Help(), match, std::regex(flag + " [A-Z]+=([^ ]*)"))) << flag;
  return match[1];
}

// The lines of a file that `keep` begins.
std::string Lines(const std::string& path, const std::string& keep) {
  std::string lines;
  for (const absl::string_view line : absl::StrSplit(ReadFile(path), '\n')) {
    if (absl::StartsWith(line, keep)) absl::StrAppend(&lines, line, "\n");
  }
  return lines;
}

// Of a manifest, by its kind and name.
YAML::Node Object(const std::string& file, const std::string& kind, const std::string& name,
                  const std::string& folder = "base") {
  for (const YAML::Node& object :
       YAML::LoadAllFromFile(Deploy(absl::StrCat("kubernetes/", folder, "/", file)))) {
    if (object["kind"].as<std::string>() == kind &&
        object["metadata"]["name"].as<std::string>() == name) {
      return object;
    }
  }
  throw std::runtime_error(absl::StrCat(file, " has no ", kind, " ", name));
}

YAML::Node PodSpec() {
  return Object("deployment.yaml", "Deployment", "stowage-server")["spec"]["template"]["spec"];
}
YAML::Node Container() { return PodSpec()["containers"][0]; }

// {"--grace": "30s", …}
std::map<std::string, std::string> Arguments() {
  std::map<std::string, std::string> arguments;
  for (const YAML::Node& argument : Container()["args"]) {
    arguments.insert(absl::StrSplit(argument.as<std::string>(), absl::MaxSplits('=', 1)));
  }
  return arguments;
}

// Of "6GiB", or of Kubernetes' "8Gi".
int64_t Bytes(std::string size) {
  if (absl::EndsWith(size, "i")) size += "B";
  const absl::StatusOr<int64_t> bytes = ParseBytes(size);
  EXPECT_TRUE(bytes.ok()) << size;
  return bytes.value_or(0);
}

TEST(Container, FlagsAreTheServers) {
  const std::string containerfile = Deploy("docker/Containerfile");
  const std::set<std::string> flags =
      FlagsOf(Lines(containerfile, "ENTRYPOINT") + Lines(containerfile, "CMD"));
  EXPECT_THAT(flags, Contains("--listen"));
  EXPECT_THAT(flags, IsSubsetOf(FlagsOf(Help())));
}

TEST(Container, PackagesAreThoseThatTheProgramsNeedAndNoOthers) {
  std::set<std::string> needed;
  for (const std::string& program : {Program("stowage-server"), Program("stowage")}) {
    std::map<std::string, std::string> paths;  // of libraries
    std::istringstream linked(RunProgram({"/usr/bin/ldd", program}).out);
    for (std::string line; std::getline(linked, line);) {
      const std::vector<std::string> words =
          absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
      if (words.size() > 3 && words[1] == "=>") paths[words[0]] = words[2];
    }
    std::istringstream dynamic(RunProgram({"/usr/bin/objdump", "-p", program}).out);
    for (std::string word; dynamic >> word;) {
      if (word != "NEEDED") continue;
      dynamic >> word;
      const std::string path = std::filesystem::canonical(paths[word]);
      // dpkg knows some libraries as /lib/…, before /lib became a link.
      ProgramResult owner = RunProgram({"/usr/bin/dpkg", "-S", path});
      if (owner.exit_code != 0) {
        owner = RunProgram({"/usr/bin/dpkg", "-S", std::string(absl::StripPrefix(path, "/usr"))});
      }
      ASSERT_EQ(owner.exit_code, 0) << owner;
      needed.insert(owner.out.substr(0, owner.out.find(':')));
    }
  }
  // They come with any of the others, and the sanitizers' with a sanitizer.
  for (const char* compiler : {"libc6", "libgcc-s1", "libstdc++6", "libasan8", "libubsan1"}) {
    needed.erase(compiler);
  }
  const ProgramResult listed = RunProgram({Deploy("setup.sh"), "run", "--names"});
  const std::set<std::string> packages =
      absl::StrSplit(listed.out, absl::ByAnyChar(" \n"), absl::SkipEmpty());
  EXPECT_EQ(packages, needed);
}

// Wherever else flags are named, but for those of other programs in comments.
TEST(Deployment, FlagsAreTheServers) {
  for (const char* file :
       {"systemd/stowage-server.service", "systemd/tls.conf", "kubernetes/tls/kustomization.yaml",
        "kubernetes/redis/kustomization.yaml"}) {
    std::string text;
    for (const absl::string_view line : absl::StrSplit(ReadFile(Deploy(file)), '\n')) {
      if (!absl::StartsWith(line, "#   ")) absl::StrAppend(&text, line, "\n");
    }
    const std::set<std::string> flags = FlagsOf(text);
    EXPECT_FALSE(flags.empty()) << file;
    EXPECT_THAT(flags, IsSubsetOf(FlagsOf(Help()))) << file;
  }
}

// Addresses and the cache's directory are the test's.
TEST(Deployment, ServerServesWithTheExampleOfAConfiguration) {
  ServerProcess server({"--config", Deploy("systemd/server.toml")});
  EXPECT_TRUE(Remote(server.address()).Answers());
}

TEST(Kubernetes, ServerServesWithTheManifestsFlags) {
  const TempFolder folder;
  std::vector<std::string> flags;
  for (auto [flag, value] : Arguments()) {
    if (flag == "--listen") continue;  // a free port each
    if (flag == "--http") value = "127.0.0.1:0";
    if (flag == "--cache-dir") value = folder.Path("cache");
    flags.insert(flags.end(), {flag, value});
  }
  ServerProcess server(flags);
  EXPECT_TRUE(Remote(server.address()).Answers());
}

std::string PortOf(const std::string& address) { return address.substr(address.rfind(':') + 1); }

// As the kubelet does, in a cluster with IPv6 alone, with IPv4 alone, or with both.
TEST(Kubernetes, ProbesReachTheServerOverIpv6AndIpv4) {
  const auto arguments = Arguments();
  const auto any_port = [](const std::string& address) {
    return address.substr(0, address.rfind(':')) + ":0";
  };
  ServerProcess server({"--http", any_port(arguments.at("--http"))},
                       any_port(arguments.at("--listen")));
  for (const std::string host : {"[::1]:", "127.0.0.1:"}) {
    const std::string address = host + PortOf(server.address());
    EXPECT_EQ(Remote(address).Health(), HealthState::SERVING) << address;
    EXPECT_TRUE(Remote(address).Answers()) << address;
    const std::string http = host + PortOf(server.http_address());
    for (const char* path : {"/livez", "/readyz"}) {
      EXPECT_THAT(HttpGet(http, path), StartsWith("200 ")) << http;
    }
  }
}

// Every port that something is said of is one that the server listens on.
TEST(Kubernetes, PortsAreTheServers) {
  const auto arguments = Arguments();
  std::map<std::string, std::string> ports;
  for (const YAML::Node& port : Container()["ports"]) {
    ports[port["name"].as<std::string>()] = port["containerPort"].as<std::string>();
  }
  EXPECT_EQ(arguments.at("--listen"), "[::]:" + ports["grpc"]);
  EXPECT_EQ(arguments.at("--http"), "[::]:" + ports["http"]);
  EXPECT_EQ(Container()["readinessProbe"]["grpc"]["port"].as<std::string>(), ports["grpc"]);
  EXPECT_EQ(Container()["livenessProbe"]["httpGet"]["port"].as<std::string>(), "http");
  for (const auto& [service, port] : {std::pair("stowage", "grpc"), {"stowage-metrics", "http"}}) {
    const YAML::Node exposed = Object("service.yaml", "Service", service)["spec"]["ports"][0];
    EXPECT_EQ(exposed["port"].as<std::string>(), ports[port]);
    EXPECT_EQ(exposed["targetPort"].as<std::string>(), port);
  }
}

TEST(Kubernetes, EverySelectorFindsThePods) {
  const YAML::Node spec = Object("deployment.yaml", "Deployment", "stowage-server")["spec"];
  const auto labels =
      spec["template"]["metadata"]["labels"].as<std::map<std::string, std::string>>();
  const YAML::Node budget = Object("disruption.yaml", "PodDisruptionBudget", "stowage-server");
  const YAML::Node policy = Object("network.yaml", "NetworkPolicy", "stowage-server");
  for (const YAML::Node& selector :
       {spec["selector"]["matchLabels"], budget["spec"]["selector"]["matchLabels"],
        policy["spec"]["podSelector"]["matchLabels"],
        Object("service.yaml", "Service", "stowage")["spec"]["selector"],
        Object("service.yaml", "Service", "stowage-metrics")["spec"]["selector"]}) {
    EXPECT_EQ((selector.as<std::map<std::string, std::string>>()), labels);
  }
}

// A peer without both selectors would admit every pod of the namespace, or of all namespaces.
TEST(Kubernetes, PrometheusAloneReachesTheHttpPort) {
  const YAML::Node spec = Object("network.yaml", "NetworkPolicy", "stowage-server")["spec"];
  EXPECT_EQ(spec["policyTypes"].as<std::vector<std::string>>(),
            std::vector<std::string>{"Ingress"});
  ASSERT_EQ(spec["ingress"].size(), 2U);
  const YAML::Node calls = spec["ingress"][0];
  const YAML::Node readers = spec["ingress"][1];
  const auto ports_of = [](const YAML::Node& ports, const char* key) {
    std::vector<std::string> names;
    for (const YAML::Node& port : ports) names.push_back(port[key].as<std::string>());
    return names;
  };
  EXPECT_EQ(ports_of(calls["ports"], "port"), std::vector<std::string>{"grpc"});
  EXPECT_EQ(ports_of(readers["ports"], "port"), std::vector<std::string>{"http"});
  EXPECT_EQ(ports_of(Container()["ports"], "name"), (std::vector<std::string>{"grpc", "http"}));
  EXPECT_FALSE(calls["from"]);
  ASSERT_EQ(readers["from"].size(), 1U);
  for (const char* selector : {"namespaceSelector", "podSelector"}) {
    EXPECT_GT(readers["from"][0][selector]["matchLabels"].size(), 0U) << selector;
  }
}

TEST(Kubernetes, LimitsLeaveTheServerWhatItsFlagsPromise) {
  const auto arguments = Arguments();
  const YAML::Node limits = Container()["resources"]["limits"];
  EXPECT_EQ(limits["cpu"].as<std::string>(), arguments.at("--threads"));
  EXPECT_GE(Bytes(limits["memory"].as<std::string>()) / 5 * 4,
            Bytes(arguments.at("--all-solves-memory")) + Bytes(arguments.at("--cache-memory")) +
                Bytes(arguments.at("--request-memory")));
  // The store's file may be larger than its answers, and has a log beside it.
  EXPECT_GE(Bytes(PodSpec()["volumes"][0]["emptyDir"]["sizeLimit"].as<std::string>()),
            2 * Bytes(arguments.at("--cache-disk")));
  EXPECT_THAT(arguments.at("--cache-dir"),
              StartsWith(Container()["volumeMounts"][0]["mountPath"].as<std::string>() + "/"));
}

TEST(Kubernetes, AutoscalerScalesTheDeployment) {
  const YAML::Node deployment = Object("deployment.yaml", "Deployment", "stowage-server");
  const YAML::Node spec =
      Object("autoscaler.yaml", "HorizontalPodAutoscaler", "stowage-server")["spec"];
  for (const char* key : {"apiVersion", "kind"}) {
    EXPECT_EQ(spec["scaleTargetRef"][key].as<std::string>(), deployment[key].as<std::string>());
  }
  EXPECT_EQ(spec["scaleTargetRef"]["name"].as<std::string>(), "stowage-server");
  EXPECT_EQ(spec["minReplicas"].as<int>(), deployment["spec"]["replicas"].as<int>());
  const ServerProcess server;
  EXPECT_THAT(HttpGet(server.http_address(), "/metrics"),
              HasSubstr(spec["metrics"][1]["pods"]["metric"]["name"].as<std::string>() + " "));
}

// With the rights that the overlay gives the servers' user.
TEST(Kubernetes, ServerSharesAnswersThroughTheOverlaysRedis) {
  const TempFolder folder;
  const std::string overlay = ReadFile(Deploy("kubernetes/redis/kustomization.yaml"));
  const std::string rights = overlay.substr(overlay.find("~stowage:*"));
  const RedisNodes nodes(1);
  const std::string user =
      absl::StrCat("ACL SETUSER stowage on >secret ", rights.substr(0, rights.find('\'')));
  EXPECT_EQ(nodes.Ask(0, absl::StrSplit(user, ' ')), "OK\n");
  const ServerProcess server({"--cache-dir", "none", "--shared-cache", nodes.Url(),
                              "--shared-cache-timeout", "60s", "--shared-cache-user-file",
                              folder.Write("login", "stowage secret\n")});
  EXPECT_EQ(SolveAndCheck(Remote(server.address()), DistinctRequest(1)), v1::Origin::SOLVED);
  EXPECT_EQ(MetricOf(server, "stowage_cache_tier_lookups_total{result=\"miss\",tier=\"shared\"}"),
            1);
}

TEST(Kubernetes, RedisIsWhereTheOverlaySays) {
  const YAML::Node pod =
      Object("redis.yaml", "Deployment", "stowage-redis", "redis")["spec"]["template"];
  const YAML::Node service = Object("redis.yaml", "Service", "stowage-redis", "redis")["spec"];
  const std::string port = service["ports"][0]["port"].as<std::string>();
  const std::string overlay = ReadFile(Deploy("kubernetes/redis/kustomization.yaml"));
  EXPECT_THAT(overlay, HasSubstr("--shared-cache=redis://stowage-redis:" + port + "\n"));
  const std::string conf = ReadFile(Deploy("kubernetes/redis/redis.conf"));
  EXPECT_THAT(conf, HasSubstr("\nport " + port + "\n"));
  const YAML::Node container = pod["spec"]["containers"][0];
  EXPECT_EQ(container["ports"][0]["containerPort"].as<std::string>(), port);
  EXPECT_EQ(service["selector"].as<Labels>(), pod["metadata"]["labels"].as<Labels>());
  // Room for copies of what is sent.
  EXPECT_THAT(conf, HasSubstr("\nmaxmemory 2gb\nmaxmemory-policy allkeys-lru\n"));
  EXPECT_GE(Bytes(container["resources"]["limits"]["memory"].as<std::string>()), int64_t{3} << 30);
  const std::string users = container["volumeMounts"][1]["mountPath"].as<std::string>();
  EXPECT_THAT(conf, HasSubstr("\naclfile " + users + "/users.acl\n"));
}

TEST(SystemdUnit, LimitLeavesTheServerWhatItsFlagsPromise) {
  const std::string limit = Lines(Deploy("systemd/stowage-server.service"), "MemoryMax=");
  const std::string gib = limit.substr(0, limit.find('G')).substr(limit.find('=') + 1);
  // By default, but for what server.toml says of the cache: 8 GiB, and 512 MiB each.
  EXPECT_THAT(ReadFile(Deploy("systemd/server.toml")), HasSubstr("\ncache-memory = \"512MiB\"\n"));
  EXPECT_GE(Bytes(gib + "GiB") / 5 * 4, int64_t{9} << 30);
}

// As seconds: a stop takes the lame duck and the grace period, then a moment.
constexpr double kMoment = 10;

TEST(Kubernetes, WaitsForTheGracePeriod) {
  const double lame_duck = *ParseSeconds(DefaultOf("--lame-duck"));
  const double grace = *ParseSeconds(Arguments().at("--grace"));
  EXPECT_GE(PodSpec()["terminationGracePeriodSeconds"].as<double>(), lame_duck + grace + kMoment);
}

TEST(SystemdUnit, WaitsForTheGracePeriod) {
  const std::string line = Lines(Deploy("systemd/stowage-server.service"), "TimeoutStopSec=");
  ASSERT_NE(line, "");
  EXPECT_GE(
      std::stod(line.substr(line.find('=') + 1)),
      *ParseSeconds(DefaultOf("--lame-duck")) + *ParseSeconds(DefaultOf("--grace")) + kMoment);
}

}  // namespace
}  // namespace stowage
