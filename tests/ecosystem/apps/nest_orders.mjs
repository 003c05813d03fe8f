// A NestJS microservice over Kafka. SERVERS TOPIC EVENTS serve: answers requests for capital letters, and keeps events, which it prints.
// SERVERS TOPIC EVENTS ask FIRST END: sends requests with these numbers, prints the answers, and sends an event for each.
import 'reflect-metadata';
import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ClientKafka, EventPattern, MessagePattern, Payload, Transport } from '@nestjs/microservices';
import { lastValueFrom, timeout } from 'rxjs';

const [servers, topic, events, task, first, end] = process.argv.slice(2);
const options = {
  client: { clientId: topic, brokers: [servers] },
  consumer: { groupId: topic, sessionTimeout: 6000, heartbeatInterval: 500, rebalanceTimeout: 6000 },
  subscribe: { fromBeginning: true },
};

class Orders {
  upper(word) {
    return { answer: String(word).toUpperCase(), by: process.pid };
  }

  keep(word) {
    console.log(`event ${word}`);
  }
}

// What decorators do in TypeScript: this is plain JavaScript.
function decorate(name, decorator) {
  decorator(Orders.prototype, name, Object.getOwnPropertyDescriptor(Orders.prototype, name));
  Payload()(Orders.prototype, name, 0);
}
decorate('upper', MessagePattern(topic));
decorate('keep', EventPattern(events));

class Root {}
Module({ controllers: [Orders] })(Root);

if (task === 'serve') {
  const service = await NestFactory.createMicroservice(Root, { transport: Transport.KAFKA, options });
  service.enableShutdownHooks();
  await service.listen();
} else {
  const client = new ClientKafka(options);
  client.subscribeToResponseOf(topic);
  await client.connect();
  const numbers = Array.from({ length: end - first }, (_, place) => Number(first) + place);
  const ask = async (number) => {
    const message = { key: `key-${number}`, value: `value-${number}` };
    const { answer, by } = await lastValueFrom(client.send(topic, message).pipe(timeout(60000)));
    console.log(`answer ${answer} ${by}`);
    await lastValueFrom(client.emit(events, message));
  };
  await Promise.all(numbers.map(ask));
  await client.close();
}
