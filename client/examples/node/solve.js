// Asks servers for a schedule, with gRPC's own client: it spreads calls over the servers and goes
// on to another one where one fails.
//
//   usage: node solve.js SERVICE_CONFIG SERVERS PROFILE MEMORY_BYTES
//
// SERVICE_CONFIG is a file of deploy/grpc, SERVERS is host:port,… with numeric hosts, PROFILE a
// chain as JSON. STOWAGE_TLS_CA names a file with the authority of the servers' certificates,
// without which nothing is encrypted, and STOWAGE_TOKEN_FILE one with a bearer token. Exits 0 with a
// schedule, 1 for an error, 2 where nothing fits.
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import grpc from '@grpc/grpc-js';
import loader from '@grpc/proto-loader';
import { getProtoPath } from 'google-proto-files';

const patienceMilliseconds = 60_000; // The server answers with its best schedule shortly before.

const definitions = loader.loadSync(
  ['stowage/v1/scheduler.proto', 'stowage/v1/errors.proto', 'google/rpc/error_details.proto'],
  {
    includeDirs: [fileURLToPath(new URL('../../../proto', import.meta.url)), getProtoPath('..')],
    keepCase: true, // The names of a profile.
    longs: Number, // Sizes are below 2^53.
    enums: String,
    json: true, // Unpacks the details of errors.
  },
);
const { Scheduler } = grpc.loadPackageDefinition(definitions).stowage.v1;

function connect(serviceConfig, servers) {
  const authority = process.env.STOWAGE_TLS_CA;
  const credentials = authority
    ? grpc.credentials.createSsl(readFileSync(authority))
    : grpc.credentials.createInsecure();
  return new Scheduler(`ipv4:${servers}`, credentials, {
    'grpc.service_config': readFileSync(serviceConfig, 'utf8'),
    'grpc.max_receive_message_length': 64 << 20, // By default 4 MiB.
  });
}

function metadata() {
  const result = new grpc.Metadata();
  const file = process.env.STOWAGE_TOKEN_FILE;
  if (file) result.set('authorization', `Bearer ${readFileSync(file, 'utf8').trim()}`);
  return result;
}

function request(profile, memoryBytes) {
  // proto-loader does not take a google.protobuf.Struct as plain JSON; no solver reads this one.
  const { provenance, ...chain } = JSON.parse(readFileSync(profile, 'utf8'));
  return { chain, platform: { memory_bytes: memoryBytes } };
}

function printError(error) {
  console.log(`${grpc.status[error.code]}: ${error.details}`);
  const [trailer] = error.metadata.get('grpc-status-details-bin');
  if (!trailer) return;
  for (const detail of definitions['stowage.v1.ErrorStatus'].deserialize(trailer).details) {
    switch (detail['@type']) {
      case 'type.googleapis.com/google.rpc.ErrorInfo':
        console.log(`reason ${detail.domain}/${detail.reason}`);
        break;
      case 'type.googleapis.com/google.rpc.BadRequest':
        for (const { field, description } of detail.field_violations) {
          console.log(`field ${field}: ${description}`);
        }
        break;
      case 'type.googleapis.com/google.rpc.RetryInfo': {
        const { seconds = 0, nanos = 0 } = detail.retry_delay;
        console.log(`retry after ${seconds * 1000 + nanos / 1e6} ms`);
      }
    }
  }
}

// Exit code 0 or 2.
function printAnswer(answer) {
  if (answer.outcome === 'INFEASIBLE') {
    console.log(`INFEASIBLE: no schedule fits below ${answer.minimum_memory_bytes} bytes`);
    return 2;
  }
  const { makespan_seconds, peak_memory_bytes } = answer.prediction;
  const operations = answer.schedule.operations.length;
  console.log(
    `${answer.outcome}: ${operations} operations of ${answer.origin.solver}` +
      ` take ${makespan_seconds.toFixed(4)} s and ${peak_memory_bytes} bytes`,
  );
  return 0;
}

if (process.argv.length !== 6) {
  console.error('usage: node solve.js SERVICE_CONFIG SERVERS PROFILE MEMORY_BYTES');
  process.exit(1);
}
const [serviceConfig, servers, profile, memoryBytes] = process.argv.slice(2);
const scheduler = connect(serviceConfig, servers);
const deadline = Date.now() + patienceMilliseconds;
scheduler.Solve(request(profile, memoryBytes), metadata(), { deadline }, (error, answer) => {
  if (error) printError(error);
  process.exitCode = error ? 1 : printAnswer(answer);
  scheduler.close();
});
