package rmqlab.interop;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.rocketmq.client.QueryResult;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.admin.OffsetWrapper;
import org.apache.rocketmq.common.admin.RollbackStats;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.common.protocol.body.ConsumeMessageDirectlyResult;
import org.apache.rocketmq.common.protocol.body.ConsumerRunningInfo;
import org.apache.rocketmq.tools.admin.api.MessageTrack;

/** What operators ask of brokers and of running consumers. */
final class AdminFlows {
    private AdminFlows() {
    }

    static void addTo(Map<String, Flows.Steps> flows) {
        flows.put("reset", AdminFlows::reset);
        flows.put("queries", AdminFlows::queries);
        flows.put("directly", AdminFlows::directly);
        flows.put("runningInfo", AdminFlows::runningInfo);
        flows.put("offsets", AdminFlows::offsets);
        flows.put("tables", AdminFlows::tables);
    }

    private static String positions(Map<MessageQueue, Long> table) {
        Map<Integer, Long> sorted = new TreeMap<>();
        table.forEach((queue, offset) -> sorted.put(queue.getQueueId(), offset));
        return sorted.toString();
    }

    private static void reset(Flow flow) throws Exception {
        String topic = flow.topic("", 2);
        String group = flow.group("reset");
        for (int i = 0; i < 4; i++) {
            flow.send(topic, i % 2, "m" + i);
        }
        Thread.sleep(300); // the nearer of two messages counts
        long between = System.currentTimeMillis();
        Thread.sleep(10);
        for (int i = 4; i < 8; i++) {
            flow.send(topic, i % 2, "m" + i);
        }
        flow.outcome("unknown group", () -> flow.admin.resetOffsetByTimestamp(topic, flow.group("nobody"), between, true));
        DefaultMQPushConsumer consumer = flow.consumer(group, "reset");
        consumer.subscribe(topic, "*");
        List<String> got = Flow.collect(consumer);
        consumer.start();
        flow.await("all", () -> got.size() == 8);
        flow.await("commit", () -> {
            consumer.getDefaultMQPushConsumerImpl().persistConsumerOffset();
            return flow.admin.examineConsumeStats(group, topic).computeTotalDiff() == 0;
        });
        flow.outcome("not forced", () -> positions(flow.admin.resetOffsetByTimestamp(topic, group, between, false)));
        flow.outcome("forced", () -> positions(flow.admin.resetOffsetByTimestamp(topic, group, between, true)));
        flow.await("again", () -> got.size() >= 12);
        flow.say("again %s", Flow.sorted(got.subList(8, got.size())));
        flow.await("commit", () -> {
            consumer.getDefaultMQPushConsumerImpl().persistConsumerOffset();
            return flow.admin.examineConsumeStats(group, topic).computeTotalDiff() == 0;
        });
        flow.outcome("far future", () -> positions(
            flow.admin.resetOffsetByTimestamp(topic, group, System.currentTimeMillis() + 3_600_000L, true)));
        flow.outcome("for C", () -> positions(flow.admin.resetOffsetByTimestamp(topic, group, 0, true, true)));
        flow.outcome("unknown topic", () -> flow.admin.resetOffsetByTimestamp("NoSuchTopic", group, 0, true));
        var status = flow.admin.getConsumeStatus(topic, group, "");
        status.values().forEach(table -> flow.say("status %d queues", table.size()));
        flow.outcome("status unknown client", () -> flow.admin.getConsumeStatus(topic, group, "nobody"));
        flow.outcome("status unknown group", () -> flow.admin.getConsumeStatus(topic, flow.group("nobody"), ""));
        consumer.shutdown();
        flow.await("gone", () -> isGone(flow, group));
        List<RollbackStats> old = flow.admin.resetOffsetByTimestampOld(group, topic, between, true);
        old.sort((one, other) -> Long.compare(one.getQueueId(), other.getQueueId()));
        for (RollbackStats stats : old) {
            flow.say("old %d: broker %d consumer %d timestamp %d rollback %d", stats.getQueueId(),
                stats.getBrokerOffset(), stats.getConsumerOffset(), stats.getTimestampOffset(),
                stats.getRollbackOffset());
        }
        flow.outcome("offline", () -> positions(flow.admin.resetOffsetByTimestamp(topic, group, between, true)));
        flow.outcome("resetOffsetNew", () -> {
            flow.admin.resetOffsetNew(group, topic, 0);
            return "done";
        });
    }

    private static boolean isGone(Flow flow, String group) throws Exception {
        try {
            flow.admin.examineConsumerConnectionInfo(group);
            return false;
        } catch (org.apache.rocketmq.client.exception.MQBrokerException e) {
            return e.getResponseCode() == 206;
        }
    }

    private static void queries(Flow flow) throws Exception {
        String topic = flow.topic("", 2);
        List<SendResult> sent = new ArrayList<>();
        for (int i = 0; i < 6; i++) {
            Message message = Flow.message(topic, "TagA", "m" + i);
            message.setKeys(List.of("all", "half" + i % 2, "own#" + i, "sp\u00e9cial"));
            sent.add(flow.producer.send(message));
        }
        long end = System.currentTimeMillis() + 3_600_000L;
        flow.await("indexed", () -> flow.admin.queryMessage(topic, "own#5", 32, 0, end).getMessageList().size() == 1);
        for (String key : List.of("all", "half0", "half1", "own#3", "sp\u00e9cial", "all half0", "none")) {
            query(flow, topic, key, 32, 0, end);
        }
        query(flow, topic, "all", 2, 0, end);
        query(flow, topic, "all", 32, 0, 1000);
        query(flow, topic, "all", 0, 0, end);
        query(flow, topic, "all", -1, 0, end);
        query(flow, "NoSuchTopic", "all", 32, 0, end);
        SendResult first = sent.get(0);
        flow.outcome("by unique key", () -> bodies(
            flow.admin.queryMessageByUniqKey(topic, first.getMsgId(), 32, 0, Long.MAX_VALUE)));
        flow.outcome("unique key as key", () -> bodies(flow.admin.queryMessage(topic, first.getMsgId(), 32, 0, end)));
        flow.outcome("viewMessage", () -> Flow.text(flow.admin.viewMessage(first.getOffsetMsgId())));
        flow.outcome("viewMessage unique", () -> Flow.text(flow.admin.viewMessage(topic, first.getMsgId())));
        flow.outcome("viewMessage cut", () -> flow.admin.viewMessage(first.getOffsetMsgId().substring(2)));
        String beyond = first.getOffsetMsgId().substring(0, 16) + "0000000FFFFFFFFF";
        flow.outcome("viewMessage beyond", () -> flow.admin.viewMessage(beyond));
        flow.outcome("viewMessage unknown", () -> flow.admin.viewMessage(topic, first.getMsgId().replace('0', '1')));
        MessageExt viewed = flow.admin.viewMessage(topic, first.getMsgId());
        flow.say("viewed %s %s offset %d times %d keys %s tags %s size %b", viewed.getTopic(), Flow.text(viewed),
            viewed.getQueueOffset(), viewed.getReconsumeTimes(), viewed.getKeys(), viewed.getTags(),
            viewed.getStoreSize() > 0);
    }

    private static String bodies(QueryResult result) {
        List<String> bodies = new ArrayList<>();
        result.getMessageList().forEach(message -> bodies.add(Flow.text(message)));
        return Flow.sorted(bodies).toString();
    }

    private static void query(Flow flow, String topic, String key, int most, long begin, long end) {
        String when = end == 1000 ? " long ago" : "";
        flow.outcome(topic + " " + key + " " + most + when, () -> {
            QueryResult result = flow.admin.queryMessage(topic, key, most, begin, end);
            return most == 2 ? result.getMessageList().size() : bodies(result);
        });
    }

    private static void directly(Flow flow) throws Exception {
        String topic = flow.topic("", 1);
        DefaultMQPushConsumer consumer = flow.consumer(flow.group("directly"), "directly");
        consumer.subscribe(topic, "*");
        List<String> got = Collections.synchronizedList(new ArrayList<>());
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            String text = Flow.text(messages.get(0));
            got.add(text);
            if (text.equals("raises") && got.indexOf(text) < got.lastIndexOf(text)) {
                throw new IllegalStateException("as it should");
            }
            return text.equals("later") && got.indexOf(text) < got.lastIndexOf(text)
                ? ConsumeConcurrentlyStatus.RECONSUME_LATER : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        DefaultMQPushConsumer orderly = flow.consumer(flow.group("directlyOrderly"), "directlyOrderly");
        orderly.subscribe(topic, "*");
        List<String> inOrder = Collections.synchronizedList(new ArrayList<>());
        orderly.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
            String text = Flow.text(messages.get(0));
            inOrder.add(text);
            return text.equals("later") && inOrder.indexOf(text) < inOrder.lastIndexOf(text)
                ? ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT : ConsumeOrderlyStatus.SUCCESS;
        });
        orderly.start();
        List<SendResult> sent = new ArrayList<>();
        for (String body : List.of("good", "later", "raises")) {
            sent.add(flow.send(topic, 0, body));
        }
        flow.await("consumed", () -> got.size() == 3 && inOrder.size() == 3);
        for (String group : List.of(flow.group("directly"), flow.group("directlyOrderly"))) {
            String id = PushFlows.clientId(flow, group);
            for (SendResult result : sent) {
                ConsumeMessageDirectlyResult done =
                    flow.admin.consumeMessageDirectly(group, id, result.getOffsetMsgId());
                flow.say("%s: order %b commit %b %s %s", group, done.isOrder(), done.isAutoCommit(),
                    done.getConsumeResult(), done.getRemark() == null ? null : done.getRemark().split("[\n:;]")[0]);
            }
        }
        String id = PushFlows.clientId(flow, flow.group("directly"));
        flow.outcome("by unique id", () -> flow.admin.consumeMessageDirectly(flow.group("directly"), id, topic,
            sent.get(0).getMsgId()).getConsumeResult());
        flow.outcome("unknown client", () -> flow.admin.consumeMessageDirectly(flow.group("directly"), "nobody",
            sent.get(0).getOffsetMsgId()));
        flow.outcome("unknown group", () -> flow.admin.consumeMessageDirectly(flow.group("nobody"), id,
            sent.get(0).getOffsetMsgId()));
        MessageExt viewed = flow.admin.viewMessage(sent.get(0).getOffsetMsgId());
        flow.await("committed", () -> {
            consumer.getDefaultMQPushConsumerImpl().persistConsumerOffset();
            orderly.getDefaultMQPushConsumerImpl().persistConsumerOffset();
            return flow.admin.examineConsumeStats(flow.group("directly"), topic).computeTotalDiff() == 0
                && flow.admin.examineConsumeStats(flow.group("directlyOrderly"), topic).computeTotalDiff() == 0;
        });
        Map<String, String> tracks = new TreeMap<>();
        for (MessageTrack track : flow.admin.messageTrackDetail(viewed)) {
            tracks.put(track.getConsumerGroup(), track.getTrackType() + " " + track.getExceptionDesc());
        }
        flow.say("tracks %s", tracks);
    }

    private static void runningInfo(Flow flow) throws Exception {
        String topic = flow.topic("", 2);
        DefaultMQPushConsumer consumer = flow.consumer(flow.group("runningInfo"), "runningInfo");
        consumer.subscribe(topic, "TagA || TagB");
        List<String> got = Flow.collect(consumer);
        consumer.start();
        flow.send(topic, 0, "m0");
        flow.await("one", () -> got.size() == 1);
        String id = PushFlows.clientId(flow, flow.group("runningInfo"));
        for (boolean withStacks : new boolean[] {false, true}) {
            ConsumerRunningInfo info = flow.admin.getConsumerRunningInfo(flow.group("runningInfo"), id, withStacks);
            Set<String> names = new TreeSet<>(info.getProperties().stringPropertyNames());
            flow.say("%b: %d properties, order %s type %s version %s", withStacks, names.size(),
                info.getProperties().getProperty(ConsumerRunningInfo.PROP_CONSUME_ORDERLY),
                info.getProperties().getProperty(ConsumerRunningInfo.PROP_CONSUME_TYPE),
                info.getProperties().getProperty(ConsumerRunningInfo.PROP_CLIENT_VERSION));
            info.getSubscriptionSet().forEach(data -> flow.say("subscription %s %s %s", data.getTopic(),
                data.getSubString(), new TreeSet<>(data.getTagsSet())));
            info.getMqTable().forEach((queue, state) -> {
                if (queue.getTopic().equals(topic)) { // that of retries comes with a later route
                    flow.say("queue %d: commit %d count %d locked %b dropped %b", queue.getQueueId(),
                        state.getCommitOffset(), state.getCachedMsgCount(), state.isLocked(), state.isDroped());
                }
            });
            flow.say("statuses %s stacks %b", info.getStatusTable().keySet(), info.getJstack() != null);
        }
        flow.outcome("unknown client", () -> flow.admin.getConsumerRunningInfo(flow.group("runningInfo"), "nobody", false));
        flow.outcome("unknown group", () -> flow.admin.getConsumerRunningInfo(flow.group("nobody"), id, false));
    }

    private static void offsets(Flow flow) throws Exception {
        String topic = flow.topic("", 2);
        DefaultMQPushConsumer consumer = flow.consumer(flow.group("offsets"), "offsets");
        consumer.subscribe(topic, "*");
        List<String> got = Flow.collect(consumer);
        consumer.start();
        for (int i = 0; i < 5; i++) {
            flow.send(topic, i % 2, "m" + i);
        }
        flow.await("all", () -> got.size() == 5);
        flow.await("commit", () -> {
            consumer.getDefaultMQPushConsumerImpl().persistConsumerOffset();
            return flow.admin.examineConsumeStats(flow.group("offsets"), topic).computeTotalDiff() == 0;
        });
        flow.outcome("clone online", () -> clone(flow, flow.group("offsets"), flow.group("cloned"), topic, false));
        stats(flow, flow.group("cloned"), topic);
        flow.admin.updateConsumeOffset(flow.broker, flow.group("cloned"), new MessageQueue(topic, flow.brokerName, 0), 1);
        stats(flow, flow.group("cloned"), topic);
        flow.outcome("clone unknown", () -> clone(flow, flow.group("nobody"), flow.group("cloned2"), topic, true));
        flow.outcome("clone unknown topic", () -> clone(flow, flow.group("offsets"), flow.group("cloned3"), "NoSuchTopic", true));
        flow.outcome("stats unknown group", () -> flow.admin.examineConsumeStats(flow.group("nobody")).getOffsetTable().size());
        flow.say("who %s", new TreeSet<>(flow.admin.queryTopicConsumeByWho(topic).getGroupList()));
        flow.outcome("who unknown", () -> new TreeSet<>(flow.admin.queryTopicConsumeByWho("NoSuch").getGroupList()));
        flow.admin.queryConsumeTimeSpan(topic, flow.group("offsets")).forEach(span -> flow.say(
            "span %d: min %b max %b consumed %b delay %d", span.getMessageQueue().getQueueId(),
            span.getMinTimeStamp() > 0, span.getMaxTimeStamp() > 0, span.getConsumeTimeStamp() > 0,
            span.getDelayTime()));
        consumer.shutdown();
        flow.await("gone", () -> isGone(flow, flow.group("offsets")));
        flow.admin.deleteSubscriptionGroup(flow.broker, flow.group("offsets"), true);
        stats(flow, flow.group("offsets"), topic);
        flow.admin.deleteSubscriptionGroup(flow.broker, flow.group("cloned"), false);
        stats(flow, flow.group("cloned"), topic);
    }

    private static String clone(Flow flow, String from, String to, String topic, boolean offline) throws Exception {
        flow.admin.cloneGroupOffset(from, to, topic, offline);
        return "done";
    }

    private static void stats(Flow flow, String group, String topic) {
        flow.outcome("stats " + group, () -> {
            Map<String, String> lines = new TreeMap<>();
            for (Map.Entry<MessageQueue, OffsetWrapper> entry : flow.admin.examineConsumeStats(group, topic)
                .getOffsetTable().entrySet()) {
                lines.put("" + entry.getKey().getQueueId(),
                    entry.getValue().getConsumerOffset() + "/" + entry.getValue().getBrokerOffset());
            }
            return lines;
        });
    }

    private static void tables(Flow flow) throws Exception {
        String topic = flow.topic("", 3);
        var config = flow.admin.examineTopicConfig(flow.broker, topic);
        flow.say("config %s", config);
        flow.outcome("unknown config", () -> flow.admin.examineTopicConfig(flow.broker, "NoSuchTopic"));
        flow.outcome("unknown route", () -> flow.admin.examineTopicRouteInfo("NoSuchTopic"));
        flow.outcome("unknown stats", () -> flow.admin.examineTopicStats("NoSuchTopic"));
        flow.outcome("unknown group config", () -> flow.admin.examineSubscriptionGroupConfig(flow.broker, flow.group("nobody")));
        flow.say("clusters %s", flow.admin.getTopicClusterList(topic));
        flow.outcome("clusters unknown", () -> flow.admin.getTopicClusterList("NoSuchTopic"));
        flow.outcome("stats data unknown",
            () -> flow.admin.viewBrokerStatsData(flow.broker, "TOPIC_PUT_NUMS", "NoSuchTopic"));
        flow.send(topic, 1, "m");
        MessageQueue queue = new MessageQueue(topic, flow.brokerName, 1);
        flow.await("in its queue", () -> flow.admin.maxOffset(queue) == 1);
        flow.outcome("consume queue", () -> {
            var body = flow.admin.queryConsumeQueue(flow.broker, topic, 1, 0, 10, null);
            return body.getMinQueueIndex() + " " + body.getMaxQueueIndex() + " " + body.getQueueData().size();
        });
        flow.outcome("consume queue unknown", () -> flow.admin.queryConsumeQueue(flow.broker, "NoSuch", 0, 0, 1, null));
        flow.outcome("consumers unknown", () -> flow.admin.examineConsumerConnectionInfo(flow.group("nobody")));
        flow.outcome("producers", () -> flow.admin.examineProducerConnectionInfo("P_tables", topic)
            .getConnectionSet().size());
        flow.outcome("producers unknown", () -> flow.admin.examineProducerConnectionInfo("P_nobody", topic));
        flow.outcome("resume unknown half", () -> flow.admin.resumeCheckHalfMessage("nonsense"));
        flow.admin.createAndUpdateKvConfig("NS_flows", "k\u00e9y", "value=1;2\u00e9");
        flow.outcome("kv", () -> flow.admin.getKVConfig("NS_flows", "k\u00e9y"));
        flow.outcome("kv list", () -> flow.admin.getKVListByNamespace("NS_flows").getTable());
        flow.admin.deleteKvConfig("NS_flows", "k\u00e9y");
        flow.outcome("kv gone", () -> flow.admin.getKVConfig("NS_flows", "k\u00e9y"));
        flow.outcome("kv list unknown", () -> flow.admin.getKVListByNamespace("NS_nothing").getTable());
        flow.admin.createTopic("DefaultCluster", topic + "-byKey", 2);
        flow.await("made", () -> flow.admin.examineTopicRouteInfo(topic + "-byKey") != null);
        flow.say("made %s", flow.admin.examineTopicConfig(flow.broker, topic + "-byKey"));
        flow.admin.deleteTopicInBroker(Set.of(flow.broker), topic);
        flow.admin.deleteTopicInNameServer(Set.of(flow.namesrv), "DefaultCluster", topic);
        flow.outcome("deleted", () -> flow.admin.examineTopicRouteInfo(topic).getQueueDatas().size());
        flow.outcome("deleted twice", () -> {
            flow.admin.deleteTopicInBroker(Set.of(flow.broker), topic);
            return "done";
        });
        flow.outcome("delete system topic", () -> {
            flow.admin.deleteTopicInBroker(Set.of(flow.broker), "TBW102");
            return "done";
        });
        flow.outcome("invalid name", () -> {
            flow.admin.createAndUpdateTopicConfig(flow.broker, new org.apache.rocketmq.common.TopicConfig("a b"));
            return "done";
        });
    }
}
