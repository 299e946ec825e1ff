import com.google.gson.Gson;
import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.util.Durations;
import com.google.protobuf.util.JsonFormat;
import com.google.rpc.BadRequest;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import io.grpc.Attributes;
import io.grpc.ChannelCredentials;
import io.grpc.EquivalentAddressGroup;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.NameResolver;
import io.grpc.NameResolverProvider;
import io.grpc.NameResolverRegistry;
import io.grpc.StatusOr;
import io.grpc.StatusRuntimeException;
import io.grpc.TlsChannelCredentials;
import io.grpc.protobuf.StatusProto;
import io.grpc.stub.MetadataUtils;
import java.io.File;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import stowage.v1.Chain;
import stowage.v1.Outcome;
import stowage.v1.Platform;
import stowage.v1.SchedulerGrpc;
import stowage.v1.SolveRequest;
import stowage.v1.SolveResponse;

/**
 * Asks servers for a schedule, with gRPC's own client: it spreads calls over the servers, leaves
 * out those that are not healthy, and goes on to another one where one fails.
 *
 * <p>usage: Solve SERVICE_CONFIG SERVERS PROFILE MEMORY_BYTES
 *
 * <p>SERVICE_CONFIG is a file of deploy/grpc, SERVERS is host:port,…, PROFILE a chain as JSON.
 * STOWAGE_TLS_CA names a file with the authority of the servers' certificates, without which
 * nothing is encrypted, and STOWAGE_TOKEN_FILE one with a bearer token. Exits 0 with a schedule, 1
 * for an error, 2 where nothing fits.
 */
public final class Solve {
  // The server answers with its best schedule shortly before.
  private static final long PATIENCE_SECONDS = 60;

  /** Java has no target that lists addresses: resolves list:///one:50051,two:50051. */
  private static final class ListedServers extends NameResolverProvider {
    @Override
    public NameResolver newNameResolver(URI target, NameResolver.Args args) {
      List<EquivalentAddressGroup> servers =
          Arrays.stream(target.getPath().substring(1).split(",")).map(Solve::address).toList();
      return new NameResolver() {
        @Override
        public String getServiceAuthority() {
          return "stowage";
        }

        @Override
        public void start(Listener2 listener) {
          listener.onResult(
              ResolutionResult.newBuilder()
                  .setAddressesOrError(StatusOr.fromValue(servers))
                  .build());
        }

        @Override
        public void shutdown() {}
      };
    }

    @Override
    public String getDefaultScheme() {
      return "list";
    }

    @Override
    protected boolean isAvailable() {
      return true;
    }

    @Override
    protected int priority() {
      return 5;
    }

    @Override
    public Collection<Class<? extends SocketAddress>> getProducedSocketAddressTypes() {
      return List.of(InetSocketAddress.class);
    }
  }

  // Each address is checked against the certificate by its own host's name.
  private static EquivalentAddressGroup address(String server) {
    int colon = server.lastIndexOf(':');
    String host = server.substring(0, colon);
    return new EquivalentAddressGroup(
        new InetSocketAddress(host, Integer.parseInt(server.substring(colon + 1))),
        Attributes.newBuilder()
            .set(EquivalentAddressGroup.ATTR_AUTHORITY_OVERRIDE, host)
            .build());
  }

  private static ManagedChannel connect(String serviceConfig, String servers) throws IOException {
    String authority = System.getenv("STOWAGE_TLS_CA");
    ChannelCredentials credentials =
        authority == null
            ? InsecureChannelCredentials.create()
            : TlsChannelCredentials.newBuilder().trustManager(new File(authority)).build();
    NameResolverRegistry.getDefaultRegistry().register(new ListedServers());
    @SuppressWarnings("unchecked")
    Map<String, ?> config =
        new Gson().fromJson(Files.readString(Path.of(serviceConfig)), Map.class);
    return Grpc.newChannelBuilder("list:///" + servers, credentials)
        .defaultServiceConfig(config)
        .maxInboundMessageSize(64 << 20) // By default 4 MiB.
        .build();
  }

  private static Metadata token() throws IOException {
    Metadata metadata = new Metadata();
    String file = System.getenv("STOWAGE_TOKEN_FILE");
    if (file != null) {
      metadata.put(
          Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER),
          "Bearer " + Files.readString(Path.of(file)).strip());
    }
    return metadata;
  }

  private static void printError(StatusRuntimeException error)
      throws InvalidProtocolBufferException {
    System.out.println(error.getMessage());
    if (error.getCause() != null) {
      System.out.println(error.getCause().getMessage());
    }
    com.google.rpc.Status status = StatusProto.fromThrowable(error);
    for (Any detail : status.getDetailsList()) {
      if (detail.is(ErrorInfo.class)) {
        ErrorInfo info = detail.unpack(ErrorInfo.class);
        System.out.printf("reason %s/%s%n", info.getDomain(), info.getReason());
      } else if (detail.is(BadRequest.class)) {
        for (BadRequest.FieldViolation violation :
            detail.unpack(BadRequest.class).getFieldViolationsList()) {
          System.out.printf("field %s: %s%n", violation.getField(), violation.getDescription());
        }
      } else if (detail.is(RetryInfo.class)) {
        System.out.printf(
            "retry after %d ms%n",
            Durations.toMillis(detail.unpack(RetryInfo.class).getRetryDelay()));
      }
    }
  }

  private static int solve(ManagedChannel channel, String profile, long memoryBytes)
      throws IOException {
    Chain.Builder chain = Chain.newBuilder();
    JsonFormat.parser().merge(Files.readString(Path.of(profile)), chain);
    SolveRequest request =
        SolveRequest.newBuilder()
            .setChain(chain)
            .setPlatform(Platform.newBuilder().setMemoryBytes(memoryBytes))
            .build();
    SolveResponse answer;
    try {
      answer =
          SchedulerGrpc.newBlockingStub(channel)
              .withInterceptors(MetadataUtils.newAttachHeadersInterceptor(token()))
              .withDeadlineAfter(PATIENCE_SECONDS, TimeUnit.SECONDS)
              .solve(request);
    } catch (StatusRuntimeException error) {
      printError(error);
      return 1;
    }
    if (answer.getOutcome() == Outcome.INFEASIBLE) {
      System.out.printf(
          "INFEASIBLE: no schedule fits below %d bytes%n", answer.getMinimumMemoryBytes());
      return 2;
    }
    System.out.printf(
        "%s: %d operations of %s take %.4f s and %d bytes%n",
        answer.getOutcome(),
        answer.getSchedule().getOperationsCount(),
        answer.getOrigin().getSolver(),
        answer.getPrediction().getMakespanSeconds(),
        answer.getPrediction().getPeakMemoryBytes());
    return 0;
  }

  public static void main(String[] arguments) throws IOException {
    if (arguments.length != 4) {
      System.err.println("usage: Solve SERVICE_CONFIG SERVERS PROFILE MEMORY_BYTES");
      System.exit(1);
    }
    ManagedChannel channel = connect(arguments[0], arguments[1]);
    int exitCode = solve(channel, arguments[2], Long.parseLong(arguments[3]));
    channel.shutdownNow();
    System.exit(exitCode);
  }
}
