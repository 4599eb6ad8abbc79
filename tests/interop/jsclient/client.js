// Sends or consumes with the JavaScript client ali-ons.
//
//     node client.js NAMESRV send|consume TOPIC FEATURE COUNT
//
// Bodies are m-0, m-1, ...; messages with odd numbers have the tag `odd`. A consumer prints
// `GOT body born stored queue`, with times in ms, and ends when it has COUNT different bodies, or with status 1 after
// some time. The client creates no topics: they must exist.
"use strict";

const { Consumer, Message, Producer } = require("ali-ons");
const httpclient = require("urllib");

const PATIENCE = 100000; // ms
const quiet = { debug() {}, info() {}, warn() {}, error() {} };

function options(namesrv, more) {
  return { httpclient, nameSrv: namesrv, accessKeyId: "none", accessKeySecret: "none", logger: quiet, ...more };
}

async function send(namesrv, topic, feature, count) {
  const producer = new Producer(options(namesrv, { producerGroup: `${topic}Senders` }));
  producer.on("error", () => {}); // it reports missing routes of retry topics, and goes on
  await producer.ready();
  for (let number = 0; number < count; number++) {
    const message = new Message(topic, number % 2 ? "odd" : "even", `m-${number}`);
    message.keys = [`k-${number}`];
    if (feature === "delay") message.delayTimeLevel = 2;
    const result = await (feature === "orderly" ? producer.send(message, `k${number % 3}`) : producer.send(message));
    if (result.sendStatus !== "SEND_OK") throw new Error(`m-${number}: ${result.sendStatus}`);
  }
}

async function consume(namesrv, topic, feature, count) {
  const consumer = new Consumer(options(namesrv, { consumerGroup: `${topic}Readers` }));
  consumer.on("error", () => {});
  const bodies = new Set();
  const complete = new Promise((resolve) => {
    consumer.subscribe(topic, feature === "tag" ? "odd" : "*", async (message) => {
      const body = message.body.toString();
      if (feature === "retry" && message.reconsumeTimes === 0 && body === "m-0") throw new Error("not yet");
      console.log("GOT", body, message.bornTimestamp, message.storeTimestamp, message.queueId);
      bodies.add(body);
      if (bodies.size === count) resolve();
    });
  });
  const late = new Promise((_, reject) => setTimeout(reject, PATIENCE, new Error("messages are missing")));
  await Promise.race([complete, late]);
}

const [namesrv, action, topic, feature, count] = process.argv.slice(2);
const act = action === "send" ? send : consume;
act(namesrv, topic, feature, Number(count)).then(
  () => process.exit(0),
  (error) => {
    console.log("FAILED", error.message);
    process.exit(1);
  },
);
