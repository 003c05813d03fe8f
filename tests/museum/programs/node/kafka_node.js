// kafka-node: groups by its ConsumerGroup, single partitions by its Consumer.
"use strict";
const kafka = require("kafka-node");
const { bootstrap, tell, within, serve } = require("./steps.js");

const CODECS = { none: 0, gzip: 1, snappy: 2 };
const connect = () =>
  within((resolve, reject) => {
    const client = new kafka.KafkaClient({ kafkaHost: bootstrap, requestTimeout: 20000 });
    client.on("error", reject);
    client.on("ready", () => resolve(client));
  });
const asked = (run) =>
  within((resolve, reject) => run((problem, found) => (problem ? reject(problem) : resolve(found))));

async function produce(topic, codec, count) {
  const client = await connect();
  const producer = new kafka.Producer(client, { requireAcks: -1, partitionerType: 0 });
  const numbers = [...Array(Number(count)).keys()];
  await asked((done) => client.refreshMetadata([topic], done));
  await asked((done) =>
    producer.send(
      [0, 1].map((partition) => ({
        topic,
        partition,
        attributes: CODECS[codec],
        messages: numbers.filter((n) => n % 2 === partition).map((n) => new kafka.KeyedMessage(`key-${n}`, `value-${n}`)),
      })),
      done,
    ),
  );
  await asked((done) => client.close(done));
}

async function take(topic, starts, count) {
  const client = await connect();
  const payloads = Object.entries(starts).map(([partition, offset]) => ({ topic, partition: Number(partition), offset }));
  const consumer = new kafka.Consumer(client, payloads, { autoCommit: false, fromOffset: true, fetchMaxWaitMs: 200 });
  const found = [];
  await within((resolve, reject) => {
    consumer.on("error", reject);
    consumer.on("message", (message) => {
      found.push(message.value);
      if (found.length >= Number(count)) resolve();
    });
  });
  await asked((done) => consumer.close(false, done));
  return found;
}

function member(topic, groupId) {
  return new kafka.ConsumerGroup(
    {
      kafkaHost: bootstrap,
      groupId,
      sessionTimeout: 6000,
      heartbeatInterval: 500,
      fromOffset: "earliest",
      autoCommit: false,
      fetchMaxWaitMs: 200,
    },
    topic,
  );
}

async function group(topic, groupId, count) {
  const consumer = member(topic, groupId);
  const found = [];
  await within((resolve, reject) => {
    consumer.on("error", reject);
    consumer.on("message", (message) => {
      found.push(message.value);
      if (found.length >= Number(count)) resolve();
    });
  });
  await asked((done) => consumer.commit(true, done));
  await asked((done) => consumer.close(false, done));
  return found;
}

async function offsets(topic) {
  const client = await connect();
  const offset = new kafka.Offset(client);
  const first = await asked((done) => offset.fetchEarliestOffsets([topic], done));
  const last = await asked((done) => offset.fetchLatestOffsets([topic], done));
  await asked((done) => client.close(done));
  return [first[topic][0], last[topic][0]];
}

async function create(topic) {
  const client = await connect();
  const admin = new kafka.Admin(client);
  const failed = await asked((done) => admin.createTopics([{ topic, partitions: 3, replicationFactor: 1 }], done));
  if (failed.length) throw new Error(JSON.stringify(failed));
  await asked((done) => client.close(done));
}

async function follow(topic, groupId) {
  const consumer = member(topic, groupId);
  process.on("SIGTERM", () => consumer.close(false, () => process.exit(0)));
  consumer.on("message", (message) => {
    tell(message.partition, message.offset, message.value);
    consumer.commit(true, () => {});
  });
  await new Promise((_, reject) => consumer.on("error", reject));
}

serve({
  produce,
  read: (topic, count) => take(topic, { 0: 0, 1: 0 }, count),
  group,
  seek: async (topic, offset) => (await take(topic, { 0: Number(offset) }, 1)).slice(0, 1),
  offsets,
  create,
  follow,
});
