// node-rdkafka, which is librdkafka.
"use strict";
const kafka = require("node-rdkafka");
const { bootstrap, tell, within, serve } = require("./steps.js");

const asked = (run) =>
  within((resolve, reject) => run((problem, found) => (problem ? reject(problem) : resolve(found))));

async function produce(topic, codec, count) {
  const producer = new kafka.Producer({ "bootstrap.servers": bootstrap, "compression.codec": codec, acks: -1, dr_cb: true });
  await asked((done) => producer.connect({}, done));
  producer.setPollInterval(50);
  await within((resolve, reject) => {
    let delivered = 0;
    producer.on("delivery-report", (problem) => {
      if (problem) reject(problem);
      if (++delivered === Number(count)) resolve();
    });
    for (let n = 0; n < Number(count); n++) producer.produce(topic, n % 2, Buffer.from(`value-${n}`), `key-${n}`);
  });
  await asked((done) => producer.disconnect(done));
}

async function member(group) {
  const consumer = new kafka.KafkaConsumer(
    {
      "bootstrap.servers": bootstrap,
      "group.id": group,
      "enable.auto.commit": false,
      "session.timeout.ms": 6000,
      "heartbeat.interval.ms": 500,
    },
    { "auto.offset.reset": "earliest" },
  );
  await asked((done) => consumer.connect({}, done));
  return consumer;
}

async function take(consumer, count) {
  const found = [];
  await within((resolve, reject) => {
    consumer.consume((problem, message) => {
      if (problem) return reject(problem);
      found.push(message.value.toString());
      if (found.length >= Number(count)) resolve();
    });
  });
  return found;
}

async function from(topic, starts, count) {
  const consumer = await member("nobody");
  consumer.assign(Object.entries(starts).map(([partition, offset]) => ({ topic, partition: Number(partition), offset })));
  const found = await take(consumer, count);
  await asked((done) => consumer.disconnect(done));
  return found;
}

async function group(topic, name, count) {
  const consumer = await member(name);
  consumer.subscribe([topic]);
  const found = await take(consumer, count);
  consumer.commitSync();
  await asked((done) => consumer.disconnect(done));
  return found;
}

async function follow(topic, name) {
  const consumer = await member(name);
  process.on("SIGTERM", () => consumer.disconnect(() => process.exit(0)));
  consumer.subscribe([topic]);
  consumer.consume((problem, message) => {
    if (problem) throw problem;
    tell(message.partition, message.offset, message.value);
    consumer.commitMessage(message); // the blocking one throws an error of its own (origin: local) while partitions move
  });
  await new Promise(() => {});
}

async function offsets(topic) {
  const consumer = await member("nobody");
  const found = await asked((done) => consumer.queryWatermarkOffsets(topic, 0, 20000, done));
  await asked((done) => consumer.disconnect(done));
  return [found.lowOffset, found.highOffset];
}

async function administer(act) {
  const admin = kafka.AdminClient.create({ "bootstrap.servers": bootstrap });
  await asked((done) => act(admin, done));
  admin.disconnect();
}

serve({
  produce,
  read: (topic, count) => from(topic, { 0: 0, 1: 0 }, count),
  group,
  follow,
  offsets,
  create: (topic) => administer((admin, done) => admin.createTopic({ topic, num_partitions: 3, replication_factor: 1 }, done)),
  delete: (topic) => administer((admin, done) => admin.deleteTopic(topic, done)),
});
