// Asks servers for a schedule, with gRPC's own client: it spreads calls over the servers, leaves
// out those that are not healthy, and goes on to another one where one fails.
//
//	usage: solve SERVICE_CONFIG SERVERS PROFILE MEMORY_BYTES
//
// SERVICE_CONFIG is a file of deploy/grpc, SERVERS is host:port,…, PROFILE a chain as JSON.
// STOWAGE_TLS_CA names a file with the authority of the servers' certificates, without which
// nothing is encrypted, and STOWAGE_TOKEN_FILE one with a bearer token. Exits 0 with a schedule, 1
// for an error, 2 where nothing fits.
package main

//go:generate sh -c "protoc -I ../../../proto --go_out=. --go_opt=module=stowage --plugin=protoc-gen-go=${DOLLAR}(go tool -n protoc-gen-go) --go-grpc_out=. --go-grpc_opt=module=stowage --plugin=protoc-gen-go-grpc=${DOLLAR}(go tool -n protoc-gen-go-grpc) stowage/v1/model.proto stowage/v1/scheduler.proto"

import (
	"context"
	"fmt"
	"log"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/health" // Without it the service config's healthCheckConfig is ignored.
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	stowagev1 "stowage/v1"
)

const patience = time.Minute // The server answers with its best schedule shortly before.

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

// Each address is checked against the certificate by its own host's name.
func addresses(servers string) resolver.State {
	var state resolver.State
	for _, server := range strings.Split(servers, ",") {
		host, _, err := net.SplitHostPort(server)
		must(host, err)
		state.Endpoints = append(state.Endpoints, resolver.Endpoint{
			Addresses: []resolver.Address{{Addr: server, ServerName: host}}})
	}
	return state
}

func connect(serviceConfig, servers string) *grpc.ClientConn {
	transport := insecure.NewCredentials()
	if authority := os.Getenv("STOWAGE_TLS_CA"); authority != "" {
		transport = must(credentials.NewClientTLSFromFile(authority, ""))
	}
	// Go has no target that lists addresses.
	list := manual.NewBuilderWithScheme("list")
	list.InitialState(addresses(servers))
	return must(grpc.NewClient("list:///stowage",
		grpc.WithResolvers(list),
		grpc.WithTransportCredentials(transport),
		grpc.WithDefaultServiceConfig(string(must(os.ReadFile(serviceConfig)))),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))) // By default 4 MiB.
}

// withToken adds the bearer token to the calls of a context.
func withToken(ctx context.Context) context.Context {
	file := os.Getenv("STOWAGE_TOKEN_FILE")
	if file == "" {
		return ctx
	}
	token := strings.TrimSpace(string(must(os.ReadFile(file))))
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
}

func printError(err error) {
	failure := status.Convert(err)
	fmt.Printf("%v: %s\n", code.Code(failure.Code()), failure.Message())
	for _, detail := range failure.Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			fmt.Printf("reason %s/%s\n", detail.Domain, detail.Reason)
		case *errdetails.BadRequest:
			for _, violation := range detail.FieldViolations {
				fmt.Printf("field %s: %s\n", violation.Field, violation.Description)
			}
		case *errdetails.RetryInfo:
			fmt.Printf("retry after %d ms\n", detail.RetryDelay.AsDuration().Milliseconds())
		}
	}
}

func main() {
	if len(os.Args) != 5 {
		log.Fatal("usage: solve SERVICE_CONFIG SERVERS PROFILE MEMORY_BYTES")
	}
	memoryBytes := must(strconv.ParseInt(os.Args[4], 10, 64))
	request := &stowagev1.SolveRequest{
		Chain: &stowagev1.Chain{}, Platform: &stowagev1.Platform{MemoryBytes: &memoryBytes}}
	if err := protojson.Unmarshal(must(os.ReadFile(os.Args[3])), request.Chain); err != nil {
		log.Fatal(os.Args[3], ": ", err)
	}
	connection := connect(os.Args[1], os.Args[2])
	defer connection.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	answer, err := stowagev1.NewSchedulerClient(connection).Solve(withToken(ctx), request)
	if err != nil {
		printError(err)
		os.Exit(1)
	}
	if answer.Outcome == stowagev1.Outcome_INFEASIBLE {
		fmt.Printf("INFEASIBLE: no schedule fits below %d bytes\n", answer.GetMinimumMemoryBytes())
		os.Exit(2)
	}
	fmt.Printf("%v: %d operations of %s take %.4f s and %d bytes\n", answer.Outcome,
		len(answer.Schedule.Operations), answer.Origin.Solver, answer.Prediction.MakespanSeconds,
		answer.Prediction.PeakMemoryBytes)
}
