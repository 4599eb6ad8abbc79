package rmqlab.interop;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.RequestCallback;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.compression.CompressionType;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Sends of every form. */
final class SendFlows {
    private SendFlows() {
    }

    static void addTo(Map<String, Flows.Steps> flows) {
        flows.put("compressed", SendFlows::compressed);
        flows.put("requests", SendFlows::requests);
        flows.put("traces", SendFlows::traces);
        flows.put("refused", SendFlows::refused);
        flows.put("properties", SendFlows::properties);
        flows.put("namespaces", SendFlows::namespaces);
        flows.put("deadNameserver", SendFlows::deadNameserver);
    }

    private static List<MessageExt> read(Flow flow, String topic, int queue, int count) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(flow.group("reader"));
        consumer.setNamesrvAddr(flow.namesrv);
        consumer.setInstanceName("reader-" + flow.name);
        consumer.start();
        try {
            List<MessageExt> all = new ArrayList<>();
            flow.await(count + " stored", () -> {
                var found = consumer.pull(new MessageQueue(topic, flow.brokerName, queue), "*", all.size(), 32)
                    .getMsgFoundList();
                if (found != null) {
                    all.addAll(found);
                }
                return all.size() >= count;
            });
            return all;
        } finally {
            consumer.shutdown();
        }
    }

    private static void compressed(Flow flow) throws Exception {
        String topic = flow.topic("", 1);
        String body = "compressible ".repeat(1000);
        int sent = 0;
        for (CompressionType type : CompressionType.values()) {
            for (int level : new int[] {0, 1, 5, 9}) {
                // Read when a producer is made: its setters change the flag, and not the compressor.
                System.setProperty("rocketmq.message.compressType", type.name());
                System.setProperty("rocketmq.message.compressLevel", "" + level);
                DefaultMQProducer producer = new DefaultMQProducer("P_compressed" + type + level);
                producer.setNamesrvAddr(flow.namesrv);
                producer.setInstanceName(flow.name);
                producer.start();
                producer.send(Flow.message(topic, "TagA", body), new MessageQueue(topic, flow.brokerName, 0));
                producer.shutdown();
                sent++;
            }
        }
        for (MessageExt message : read(flow, topic, 0, sent)) {
            flow.say("flag %x %b %b", message.getSysFlag(), Flow.text(message).equals(body),
                message.getStoreSize() < 3000);
        }
        flow.producer.setCompressMsgBodyOverHowmuch(10);
        List<Message> batch = new ArrayList<>();
        for (int i = 0; i < 3; i++) {
            batch.add(new Message(topic, "TagB", "bk" + i, ("batch " + body + i).getBytes(StandardCharsets.UTF_8)));
        }
        SendResult result = flow.producer.send(batch, new MessageQueue(topic, flow.brokerName, 0));
        flow.say("batch ids %d offset %d", result.getMsgId().split(",").length, result.getQueueOffset());
        List<MessageExt> all = read(flow, topic, 0, sent + 3);
        for (MessageExt message : all.subList(sent, sent + 3)) {
            flow.say("batched %x %s %s", message.getSysFlag(), message.getKeys(),
                Flow.text(message).substring(Flow.text(message).length() - 1));
        }
    }

    private static void requests(Flow flow) throws Exception {
        String topic = flow.topic("", 1);
        DefaultMQPushConsumer replier = flow.consumer(flow.group("replier"), "replier");
        replier.subscribe(topic, "*");
        DefaultMQProducer replies = new DefaultMQProducer("P_replies");
        replies.setNamesrvAddr(flow.namesrv);
        replies.setInstanceName("replies");
        replies.start();
        flow.atEnd(replies::shutdown);
        List<Message> late = Collections.synchronizedList(new ArrayList<>());
        List<String> outcomes = Collections.synchronizedList(new ArrayList<>());
        replier.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                try {
                    String text = Flow.text(message);
                    Message reply = MessageUtil.createReplyMessage(message,
                        ("re " + text).getBytes(StandardCharsets.UTF_8));
                    if (text.equals("silence")) {
                        late.add(reply);
                    } else {
                        outcomes.add(text + " " + replies.send(reply, 3000).getSendStatus());
                        if (text.equals("twice")) {
                            outcomes.add(text + " " + replies.send(reply, 3000).getSendStatus());
                        }
                    }
                } catch (Exception e) {
                    outcomes.add(e.getClass().getSimpleName());
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        replier.start();
        flow.await("replier", () -> flow.admin.examineConsumerConnectionInfo(flow.group("replier")) != null);
        flow.outcome("answered", () -> Flow.text(flow.producer.request(Flow.message(topic, "", "question"), 20_000)));
        flow.outcome("twice", () -> Flow.text(flow.producer.request(Flow.message(topic, "", "twice"), 20_000)));
        flow.outcome("to a queue", () -> Flow.text(flow.producer.request(Flow.message(topic, "", "queue"),
            new MessageQueue(topic, flow.brokerName, 0), 20_000)));
        AtomicReference<String> answer = new AtomicReference<>();
        CountDownLatch called = new CountDownLatch(1);
        flow.producer.request(Flow.message(topic, "", "callback"), new RequestCallback() {
            @Override
            public void onSuccess(Message message) {
                answer.set(Flow.text(message));
                called.countDown();
            }

            @Override
            public void onException(Throwable e) {
                answer.set(e.getClass().getSimpleName());
                called.countDown();
            }
        }, 20_000);
        called.await(Flow.PATIENCE_MILLIS, TimeUnit.MILLISECONDS);
        flow.say("callback %s", answer.get());
        flow.outcome("silence", () -> Flow.text(flow.producer.request(Flow.message(topic, "", "silence"), 1500)));
        flow.await("the request came", () -> late.size() == 1);
        flow.outcome("late reply", () -> replies.send(late.get(0), 3000).getSendStatus());
        Message forged = new Message(late.get(0).getTopic(), "re".getBytes(StandardCharsets.UTF_8));
        late.get(0).getProperties().forEach((name, value) -> {
            if (!name.equals("REPLY_TO_CLIENT") && !name.equals("UNIQ_KEY")) {
                org.apache.rocketmq.common.message.MessageAccessor.putProperty(forged, name, value);
            }
        });
        org.apache.rocketmq.common.message.MessageAccessor.putProperty(forged, "REPLY_TO_CLIENT", "nobody");
        flow.outcome("reply to nobody", () -> replies.send(forged, 3000).getSendStatus());
        flow.say("%s", Flow.sorted(outcomes));
        Map<String, Integer> stored = new TreeMap<>();
        stored.put("replies stored",
            flow.admin.examineTopicRouteInfo("DefaultCluster_REPLY_TOPIC").getQueueDatas().size());
        flow.say("%s", stored);
    }

    private static void traces(Flow flow) throws Exception {
        String topic = flow.topic("", 1);
        String traceTopic = flow.topic("-trace", 1);
        DefaultMQProducer traced = new DefaultMQProducer("P_traced", true, traceTopic);
        traced.setNamesrvAddr(flow.namesrv);
        traced.setInstanceName("traced");
        traced.start();
        SendResult sent = traced.send(Flow.message(topic, "TagA", "m0"));
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(flow.group("traced"), true, traceTopic);
        consumer.setNamesrvAddr(flow.namesrv);
        consumer.setInstanceName("tracedConsumer");
        consumer.setConsumeFromWhere(org.apache.rocketmq.common.consumer.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) ->
            ConsumeConcurrentlyStatus.CONSUME_SUCCESS);
        consumer.start();
        List<String> kinds = new ArrayList<>();
        flow.await("traces", () -> {
            kinds.clear();
            for (MessageExt trace : read(flow, traceTopic, 0, 1)) {
                for (String line : Flow.text(trace).split("\u0002")) {
                    String[] fields = line.split("\u0001");
                    kinds.add(fields[0] + " " + fields.length + " " + trace.getKeys().contains(sent.getMsgId()));
                }
            }
            return kinds.size() >= 3;
        });
        consumer.shutdown();
        traced.shutdown();
        flow.say("%s", Flow.sorted(kinds));
    }

    private static void refused(Flow flow) throws Exception {
        String topic = flow.topic("", 1);
        flow.outcome("queue out of range", () -> flow.producer.send(Flow.message(topic, "", "x"),
            new MessageQueue(topic, flow.brokerName, 9)).getMessageQueue().getQueueId());
        flow.outcome("unknown broker", () -> flow.producer.send(Flow.message(topic, "", "x"),
            new MessageQueue(topic, "broker-z", 0)).getSendStatus());
        flow.outcome("empty", () -> flow.producer.send(new Message(topic, new byte[0])).getSendStatus());
        flow.outcome("too large", () -> flow.producer.send(new Message(topic, new byte[5 << 20])).getSendStatus());
        DefaultMQProducer generous = new DefaultMQProducer("P_generous");
        generous.setNamesrvAddr(flow.namesrv);
        generous.setInstanceName("generous");
        generous.setMaxMessageSize(64 << 20);
        generous.setCompressMsgBodyOverHowmuch(1 << 30);
        generous.start();
        flow.atEnd(generous::shutdown);
        flow.outcome("too large for the broker",
            () -> generous.send(new Message(topic, new byte[5 << 20])).getSendStatus());
        flow.outcome("system topic", () -> flow.producer.send(new Message("SCHEDULE_TOPIC_XXXX", new byte[1])));
        flow.outcome("invalid topic", () -> flow.producer.send(new Message("a b", new byte[1])));
        flow.outcome("long topic", () -> flow.producer.send(new Message("t".repeat(128), new byte[1])));
        flow.outcome("long properties", () -> {
            Message message = Flow.message(topic, "", "x");
            message.putUserProperty("p", "v".repeat(40_000));
            return flow.producer.send(message).getSendStatus();
        });
        flow.outcome("largest properties", () -> {
            Message message = Flow.message(topic, "", "x");
            message.putUserProperty("p", "v".repeat(32_000));
            return flow.producer.send(message).getSendStatus();
        });
        flow.outcome("mixed batch", () -> flow.producer.send(List.of(Flow.message(topic, "", "x"),
            Flow.message(topic + "2", "", "x"))));
        flow.outcome("delayed batch", () -> {
            Message message = Flow.message(topic, "", "x");
            message.setDelayTimeLevel(1);
            return flow.producer.send(List.of(message, message));
        });
        var config = flow.admin.examineTopicConfig(flow.broker, topic);
        config.setPerm(4);
        flow.admin.createAndUpdateTopicConfig(flow.broker, config);
        flow.outcome("read only", () -> flow.producer.send(Flow.message(topic, "", "x"),
            new MessageQueue(topic, flow.brokerName, 0)).getSendStatus());
        config.setPerm(2);
        flow.admin.createAndUpdateTopicConfig(flow.broker, config);
        flow.outcome("write only", () -> flow.producer.send(Flow.message(topic, "", "x"),
            new MessageQueue(topic, flow.brokerName, 0)).getSendStatus());
        flow.outcome("selector raises", () -> flow.producer.send(Flow.message(topic, "", "x"),
            (queues, message, argument) -> {
                throw new IllegalStateException("as it should");
            }, null));
        flow.outcome("selector returns null", () -> flow.producer.send(Flow.message(topic, "", "x"),
            (queues, message, argument) -> null, null));
        AtomicReference<String> answer = new AtomicReference<>();
        CountDownLatch called = new CountDownLatch(1);
        flow.producer.send(Flow.message(topic, "", "x"), (queues, message, argument) -> {
            throw new IllegalStateException("as it should");
        }, null, new SendCallback() {
            @Override
            public void onSuccess(SendResult result) {
                answer.set("success");
                called.countDown();
            }

            @Override
            public void onException(Throwable e) {
                answer.set(e.getClass().getSimpleName() + " " + e.getMessage().split("\n")[0]);
                called.countDown();
            }
        });
        called.await(5, TimeUnit.SECONDS);
        flow.say("asynchronous selector raises: %s", answer.get());
    }

    private static void properties(Flow flow) throws Exception {
        String topic = flow.topic("", 1);
        Message message = new Message(topic, "Tag A", "k1 k2", 7, "body \u00e9\u4e2d\ud83d\ude00"
            .getBytes(StandardCharsets.UTF_8), false);
        message.putUserProperty("n\u00e4me", "v\u00e4lue \ud83d\ude00");
        message.putUserProperty("spaces", " x ");
        message.setBuyerId("buyer");
        flow.producer.send(message);
        Message twin = new Message(topic, "\u6807\u7b7e", "\u952e", "x".getBytes(StandardCharsets.UTF_8));
        twin.setInstanceId("inst");
        flow.producer.send(twin);
        flow.producer.sendOneway(Flow.message(topic, null, "oneway"));
        for (MessageExt found : read(flow, topic, 0, 3)) {
            TreeMap<String, String> properties = new TreeMap<>(found.getProperties());
            properties.remove("UNIQ_KEY");
            properties.remove("MAX_OFFSET"); // at the time of the pull
            flow.say("flag %d body %s wait %b properties %s", found.getFlag(), Flow.text(found),
                found.isWaitStoreMsgOK(), properties);
        }
        DefaultMQPushConsumer consumer = flow.consumer(flow.group("properties"), "properties");
        consumer.subscribe(topic, "\u6807\u7b7e");
        List<String> got = Collections.synchronizedList(new ArrayList<>());
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(one -> got.add(one.getTags() + " " + one.getKeys()));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        flow.await("one", () -> got.size() == 1);
        flow.say("%s", got);
    }

    private static void namespaces(Flow flow) throws Exception {
        String topic = flow.topic("", 1);
        String inside = "NS1%" + topic;
        flow.admin.createAndUpdateTopicConfig(flow.broker, new org.apache.rocketmq.common.TopicConfig(inside, 1, 1, 6));
        flow.await("route", () -> flow.admin.examineTopicRouteInfo(inside) != null);
        DefaultMQProducer producer = new DefaultMQProducer("NS1", "P_inNamespace");
        producer.setNamesrvAddr(flow.namesrv);
        producer.setInstanceName("inNamespace");
        producer.start();
        flow.atEnd(producer::shutdown);
        SendResult result = producer.send(Flow.message(topic, "TagA", "inside"));
        flow.say("sent to %s", result.getMessageQueue().getTopic());
        flow.send(topic, 0, "outside");
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("NS1", flow.group("inNamespace"));
        consumer.setNamesrvAddr(flow.namesrv);
        consumer.setInstanceName("inNamespaceConsumer");
        consumer.setMaxReconsumeTimes(1);
        consumer.setConsumeFromWhere(org.apache.rocketmq.common.consumer.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        List<String> got = Collections.synchronizedList(new ArrayList<>());
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            MessageExt message = messages.get(0);
            got.add(message.getTopic() + " " + Flow.text(message) + "#" + message.getReconsumeTimes() + " "
                + message.getProperty("INSTANCE_ID"));
            context.setDelayLevelWhenNextConsume(1);
            return ConsumeConcurrentlyStatus.RECONSUME_LATER;
        });
        consumer.start();
        flow.atEnd(consumer::shutdown);
        flow.await("twice", () -> got.size() == 2);
        flow.say("%s", got);
        flow.say("group %s", flow.admin.queryTopicConsumeByWho(inside).getGroupList());
        String dead = "%DLQ%NS1%" + flow.group("inNamespace");
        flow.await("dead letter", () -> flow.admin.examineTopicStats(dead).getOffsetTable().size()
            == 1 && flow.admin.examineTopicStats(dead).getOffsetTable().values().iterator().next()
            .getMaxOffset() == 1);
        flow.say("dead letters in %s", flow.admin.examineTopicStats(dead).getOffsetTable()
            .keySet().iterator().next().getTopic());
    }

    private static void deadNameserver(Flow flow) throws Exception {
        String topic = flow.topic("", 1);
        for (String addresses : List.of("127.0.0.1:1;" + flow.namesrv, flow.namesrv + ";127.0.0.1:1")) {
            DefaultMQProducer producer = new DefaultMQProducer("P_dead");
            producer.setNamesrvAddr(addresses);
            producer.setInstanceName("dead" + addresses.startsWith("127.0.0.1:1;"));
            producer.start();
            flow.outcome("send", () -> producer.send(Flow.message(topic, "", "x")).getSendStatus());
            producer.shutdown();
        }
        DefaultMQProducer none = new DefaultMQProducer("P_none");
        none.setNamesrvAddr("127.0.0.1:1");
        none.setInstanceName("none");
        none.start();
        flow.outcome("none alive", () -> none.send(Flow.message(topic, "", "x")).getSendStatus());
        none.shutdown();
    }
}
