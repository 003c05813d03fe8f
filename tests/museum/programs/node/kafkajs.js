// kafkajs.
"use strict";
const { Kafka, CompressionTypes, logLevel } = require("kafkajs");
const { bootstrap, tell, within, serve } = require("./steps.js");

const kafka = new Kafka({ brokers: [bootstrap], logLevel: logLevel.NOTHING, retry: { retries: 3 } });
const CODECS = { none: CompressionTypes.None, gzip: CompressionTypes.GZIP };

async function produce(topic, codec, count) {
  const producer = kafka.producer();
  await producer.connect();
  const messages = [...Array(Number(count)).keys()].map((n) => ({ key: `key-${n}`, value: `value-${n}`, partition: n % 2 }));
  await producer.send({ topic, messages, compression: CODECS[codec], acks: -1 });
  await producer.disconnect();
}

async function member(topic, groupId) {
  const settings = { groupId, sessionTimeout: 6000, heartbeatInterval: 500, maxWaitTimeInMs: 200 };
  const consumer = kafka.consumer(settings);
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  return consumer;
}

async function take(topic, groupId, count, before = () => {}) {
  const consumer = await member(topic, groupId);
  const found = [];
  const next = {};
  await within(async (resolve, reject) => {
    consumer.on(consumer.events.CRASH, (event) => reject(event.payload.error));
    await consumer.run({
      autoCommit: false,
      eachMessage: async ({ partition, message }) => {
        found.push(message.value.toString());
        next[partition] = String(Number(message.offset) + 1);
        if (found.length >= Number(count)) resolve();
      },
    });
    before(consumer);
  });
  await consumer.commitOffsets(Object.entries(next).map(([partition, offset]) => ({ topic, partition: Number(partition), offset })));
  await consumer.disconnect();
  return found;
}

const nobody = () => `nobody-${process.pid}-${Math.random()}`;

async function seek(topic, offset) {
  // Read until the record that was sought comes: the position before the seek may give others.
  const consumer = await member(topic, nobody());
  const found = await within(async (resolve, reject) => {
    consumer.on(consumer.events.CRASH, (event) => reject(event.payload.error));
    await consumer.run({
      autoCommit: false,
      eachMessage: async ({ partition, message }) => {
        if (partition === 0 && message.offset === offset) resolve([message.value.toString()]);
      },
    });
    consumer.seek({ topic, partition: 0, offset });
  });
  await consumer.disconnect();
  return found;
}

async function administer(act) {
  const admin = kafka.admin();
  await admin.connect();
  try {
    return await act(admin);
  } finally {
    await admin.disconnect();
  }
}

async function transact(topic, transactionalId) {
  const producer = kafka.producer({ transactionalId, idempotent: true, maxInFlightRequests: 1 });
  await producer.connect();
  for (const outcome of ["aborted", "committed"]) {
    const transaction = await producer.transaction();
    await transaction.send({ topic, messages: [{ key: "key", value: outcome, partition: 0 }] });
    await (outcome === "aborted" ? transaction.abort() : transaction.commit());
  }
  await producer.disconnect();
}

async function follow(topic, group) {
  const consumer = await member(topic, group);
  process.on("SIGTERM", async () => {
    await consumer.disconnect();
    process.exit(0);
  });
  await consumer.run({
    autoCommit: false,
    eachMessage: async ({ partition, message }) => {
      tell(partition, message.offset, message.value);
      await consumer.commitOffsets([{ topic, partition, offset: String(Number(message.offset) + 1) }]);
    },
  });
  await new Promise(() => {});
}

serve({
  produce,
  read: (topic, count) => take(topic, nobody(), count),
  group: take,
  seek,
  offsets: (topic) =>
    administer(async (admin) => {
      const first = (await admin.fetchTopicOffsets(topic)).find((each) => each.partition === 0);
      return [first.low, first.high];
    }),
  create: (topic) =>
    administer(async (admin) => {
      await admin.createTopics({ topics: [{ topic, numPartitions: 3, replicationFactor: 1 }] });
    }),
  delete: (topic) =>
    administer(async (admin) => {
      await admin.deleteTopics({ topics: [topic] });
    }),
  transact,
  follow,
});
