package rmqlab.interop;

import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.store.ReadOffsetType;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.common.protocol.heartbeat.MessageModel;

/** Consumers that ask for messages themselves. */
final class PullFlows {
    private PullFlows() {
    }

    static void addTo(Map<String, Flows.Steps> flows) {
        flows.put("assigned", PullFlows::assigned);
        flows.put("subscribed", PullFlows::subscribed);
        flows.put("bySql", PullFlows::bySql);
        flows.put("fromTimestamp", PullFlows::fromTimestamp);
        flows.put("byHand", PullFlows::byHand);
    }

    private static DefaultLitePullConsumer lite(Flow flow, String group, String instance) {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(group);
        consumer.setNamesrvAddr(flow.namesrv);
        consumer.setInstanceName(instance);
        consumer.setAutoCommit(false);
        consumer.setPollTimeoutMillis(1000);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        flow.atEnd(consumer::shutdown);
        return consumer;
    }

    /** Polls until as many messages have come, and returns them as queue/offset, in order of queues. */
    private static String poll(Flow flow, DefaultLitePullConsumer consumer, int count) throws Exception {
        List<String> got = new ArrayList<>();
        flow.await(count + " messages", () -> {
            for (MessageExt message : consumer.poll(500)) {
                got.add(message.getQueueId() + "/" + message.getQueueOffset() + "=" + Flow.text(message));
            }
            return got.size() >= count;
        });
        for (MessageExt message : consumer.poll(300)) {
            got.add("more " + message.getQueueId() + "/" + message.getQueueOffset());
        }
        Collections.sort(got);
        return String.join(" ", got);
    }

    private static void assigned(Flow flow) throws Exception {
        String topic = flow.topic("", 2);
        long between = 0;
        for (int i = 0; i < 6; i++) {
            if (i == 4) {
                Thread.sleep(300); // the nearer of two messages counts
                between = System.currentTimeMillis();
                Thread.sleep(10);
            }
            flow.send(topic, i % 2, "m" + i);
        }
        DefaultLitePullConsumer consumer = lite(flow, flow.group("assigned"), "assigned-1");
        consumer.start();
        List<MessageQueue> queues = new ArrayList<>(new TreeSet<>(consumer.fetchMessageQueues(topic)));
        flow.say("queues %d", queues.size());
        for (MessageQueue queue : queues) {
            flow.say("at %d: begin %d, between %d, future %d, committed %d", queue.getQueueId(),
                consumer.offsetForTimestamp(queue, 0L), consumer.offsetForTimestamp(queue, between),
                consumer.offsetForTimestamp(queue, System.currentTimeMillis() + 3_600_000L),
                consumer.committed(queue));
        }
        consumer.assign(queues);
        flow.say("first %s", poll(flow, consumer, 6));
        consumer.seek(queues.get(0), 1);
        flow.say("after seek %s", poll(flow, consumer, 2));
        consumer.seekToBegin(queues.get(1));
        flow.say("after seekToBegin %s", poll(flow, consumer, 3));
        consumer.seekToEnd(queues.get(0));
        flow.send(topic, 0, "late");
        flow.say("after seekToEnd %s", poll(flow, consumer, 1));
        consumer.seek(queues.get(0), consumer.offsetForTimestamp(queues.get(0), between));
        flow.say("after offsetForTimestamp %s", poll(flow, consumer, 2));
        flow.outcome("seek too far", () -> {
            consumer.seek(queues.get(0), 1000);
            return "done";
        });
        flow.outcome("seek negative", () -> {
            consumer.seek(queues.get(0), -1);
            return "done";
        });
        consumer.commitSync();
        for (MessageQueue queue : queues) {
            flow.await("commit", () -> consumer.committed(queue) > 0);
            flow.say("committed %d: %d", queue.getQueueId(), consumer.committed(queue));
        }
        consumer.assign(queues.subList(1, 2));
        flow.send(topic, 0, "unassigned");
        flow.send(topic, 1, "assigned");
        flow.say("one assigned %s", poll(flow, consumer, 1));
        consumer.shutdown();
        DefaultLitePullConsumer next = lite(flow, flow.group("assigned"), "assigned-2");
        next.start();
        next.assign(queues);
        flow.say("next %s", poll(flow, next, 6));
    }

    private static void subscribed(Flow flow) throws Exception {
        String topic = flow.topic("", 4);
        for (int i = 0; i < 8; i++) {
            flow.send(topic, i % 4, "m" + i);
        }
        DefaultLitePullConsumer consumer = lite(flow, flow.group("subscribed"), "subscribed-1");
        consumer.subscribe(topic, "TagA || TagB");
        consumer.start();
        flow.say("first %s", poll(flow, consumer, 8));
        flow.say("assignment %d", consumer.assignment().size());
        DefaultLitePullConsumer other = lite(flow, flow.group("subscribed"), "subscribed-2");
        other.subscribe(topic, "TagA || TagB");
        other.start();
        flow.await("both have two", () -> consumer.assignment().size() == 2 && other.assignment().size() == 2);
        TreeSet<String> held = new TreeSet<>();
        consumer.assignment().forEach(queue -> held.add("" + queue.getQueueId()));
        other.assignment().forEach(queue -> held.add("" + queue.getQueueId()));
        flow.say("shared %s", held);
        other.shutdown();
        flow.await("one has all", () -> consumer.assignment().size() == 4);
        DefaultLitePullConsumer broadcast = lite(flow, flow.group("broadcastLite"), "broadcast-1");
        broadcast.setMessageModel(MessageModel.BROADCASTING);
        broadcast.subscribe(topic, "*");
        broadcast.start();
        flow.say("broadcast %s", poll(flow, broadcast, 8));
        broadcast.commitSync();
    }

    private static void bySql(Flow flow) throws Exception {
        String topic = flow.topic("", 1);
        for (int i = 0; i < 6; i++) {
            var message = Flow.message(topic, i % 2 == 0 ? "TagA" : "TagB", "m" + i);
            message.putUserProperty("i", "" + i);
            flow.producer.send(message);
        }
        for (String sql : List.of("i > 2", "TAGS = 'TagB' AND i BETWEEN 1 AND 3", "i IS NULL")) {
            DefaultLitePullConsumer consumer = lite(flow, flow.group("bySql") + sql.hashCode(), "sql" + sql.hashCode());
            consumer.subscribe(topic, MessageSelector.bySql(sql));
            consumer.start();
            flow.await("assignment", () -> consumer.assignment().size() == 1);
            MessageQueue queue = consumer.assignment().iterator().next();
            int wanted = sql.startsWith("i >") ? 3 : sql.startsWith("T") ? 2 : 0;
            flow.say("%s: [%s]", sql, poll(flow, consumer, wanted));
            consumer.commitSync();
            flow.say("end %d", consumer.offsetForTimestamp(queue, System.currentTimeMillis() + 1000));
            consumer.shutdown();
        }
    }

    private static void fromTimestamp(Flow flow) throws Exception {
        String topic = flow.topic("", 1);
        flow.send(topic, 0, "old");
        DefaultLitePullConsumer consumer = lite(flow, flow.group("fromTimestamp"), "fromTimestamp");
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_TIMESTAMP);
        java.text.SimpleDateFormat form = new java.text.SimpleDateFormat("yyyyMMddHHmmss");
        long second = System.currentTimeMillis() / 1000 + 1;
        Thread.sleep(second * 1000 - System.currentTimeMillis() + 20);
        consumer.setConsumeTimestamp(form.format(new java.util.Date(second * 1000)));
        flow.send(topic, 0, "new");
        consumer.subscribe(topic, "*");
        consumer.start();
        flow.say("%s", poll(flow, consumer, 1));
        DefaultLitePullConsumer last = lite(flow, flow.group("fromLast"), "fromLast");
        last.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET);
        last.subscribe(topic, "*");
        last.start();
        flow.await("assignment", () -> last.assignment().size() == 1);
        flow.say("last: before %s", poll(flow, last, 0));
        flow.send(topic, 0, "newest");
        flow.say("last %s", poll(flow, last, 1));
    }

    private static void byHand(Flow flow) throws Exception {
        String topic = flow.topic("", 1);
        MessageQueue queue = new MessageQueue(topic, flow.brokerName, 0);
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(flow.group("byHand"));
        consumer.setNamesrvAddr(flow.namesrv);
        consumer.setInstanceName("byHand");
        flow.atEnd(consumer::shutdown);
        consumer.start();
        flow.say("subscribe queues %d", consumer.fetchSubscribeMessageQueues(topic).size());
        pull(flow, consumer, queue, "empty queue", "*", 0);
        for (int i = 0; i < 5; i++) {
            flow.send(topic, 0, "m" + i);
        }
        flow.await("stored", () -> consumer.maxOffset(queue) == 5);
        for (long offset : new long[] {0, 3, 5, 6, 1000, -1}) {
            pull(flow, consumer, queue, "pull " + offset, "*", offset);
        }
        pull(flow, consumer, queue, "other tag", "TagB", 0);
        pull(flow, consumer, queue, "unknown queue", "*", 0, new MessageQueue(topic, flow.brokerName, 7));
        pull(flow, consumer, queue, "negative queue", "*", 0, new MessageQueue(topic, flow.brokerName, -1));
        pull(flow, consumer, queue, "unknown topic", "*", 0, new MessageQueue("NoSuchTopic", flow.brokerName, 0));
        flow.say("min %d max %d earliest %b", consumer.minOffset(queue), consumer.maxOffset(queue),
            consumer.earliestMsgStoreTime(queue) > 0);
        flow.say("offset before %d", consumer.fetchConsumeOffset(queue, true));
        consumer.updateConsumeOffset(queue, 3);
        consumer.getDefaultMQPullConsumerImpl().getOffsetStore().persist(queue);
        flow.await("offset", () -> consumer.getDefaultMQPullConsumerImpl().getOffsetStore()
            .readOffset(queue, ReadOffsetType.READ_FROM_STORE) == 3);
        SendResult sent = flow.send(topic, 0, "viewed");
        flow.say("viewMessage %s", Flow.text(consumer.viewMessage(topic, sent.getMsgId())));
        flow.say("viewMessage by offset id %s", Flow.text(consumer.viewMessage(topic, sent.getOffsetMsgId())));
        MessageExt back = consumer.viewMessage(topic, sent.getMsgId());
        consumer.sendMessageBack(back, 3);
        flow.await("retry topic", () -> flow.admin.examineTopicStats("%RETRY%" + flow.group("byHand")) != null);
        Collection<MessageQueue> none = consumer.fetchMessageQueuesInBalance(topic);
        flow.say("balance %d", none.size());
    }

    private static void pull(Flow flow, DefaultMQPullConsumer consumer, MessageQueue queue, String label, String tags,
        long offset) {
        pull(flow, consumer, queue, label, tags, offset, queue);
    }

    private static void pull(Flow flow, DefaultMQPullConsumer consumer, MessageQueue unused, String label, String tags,
        long offset, MessageQueue queue) {
        flow.outcome(label, () -> {
            PullResult result = consumer.pull(queue, tags, offset, 2);
            int found = result.getMsgFoundList() == null ? 0 : result.getMsgFoundList().size();
            return result.getPullStatus() + " " + found + " next " + result.getNextBeginOffset() + " min "
                + result.getMinOffset() + " max " + result.getMaxOffset();
        });
    }
}
