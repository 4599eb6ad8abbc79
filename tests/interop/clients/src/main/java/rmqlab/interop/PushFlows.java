package rmqlab.interop;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragelyByCircle;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByConfig;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByMachineRoom;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueConsistentHash;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.common.protocol.heartbeat.MessageModel;
import org.apache.rocketmq.common.subscription.SubscriptionGroupConfig;

/** Consumers that messages are pushed to. */
final class PushFlows {
    private PushFlows() {
    }

    static void addTo(Map<String, Flows.Steps> flows) {
        flows.put("broadcasting", PushFlows::broadcasting);
        flows.put("orderly", PushFlows::orderly);
        flows.put("deadLetters", PushFlows::deadLetters);
        flows.put("filtered", PushFlows::filtered);
        flows.put("strategies", PushFlows::strategies);
        flows.put("thresholds", PushFlows::thresholds);
        flows.put("unitMode", PushFlows::unitMode);
        flows.put("disabledGroup", PushFlows::disabledGroup);
        flows.put("suspended", PushFlows::suspended);
    }

    private static void broadcasting(Flow flow) throws Exception {
        String topic = flow.topic("", 2);
        flow.send(topic, 0, "m0");
        flow.send(topic, 1, "m1");
        List<List<String>> got = new ArrayList<>();
        List<DefaultMQPushConsumer> members = new ArrayList<>();
        for (int i = 0; i < 2; i++) {
            DefaultMQPushConsumer member = flow.consumer(flow.group("broadcasting"), "broadcasting-" + i);
            member.setMessageModel(MessageModel.BROADCASTING);
            member.subscribe(topic, "*");
            got.add(Flow.collect(member));
            member.start();
            members.add(member);
        }
        flow.await("both have both", () -> got.stream().allMatch(one -> one.size() == 2));
        flow.say("first %s %s", Flow.sorted(got.get(0)), Flow.sorted(got.get(1)));
        flow.outcome("offset at the broker", () -> flow.admin.examineConsumeStats(flow.group("broadcasting")).getOffsetTable());
        members.get(0).shutdown();
        flow.send(topic, 0, "m2");
        flow.await("the other has the next", () -> got.get(1).size() == 3);
        DefaultMQPushConsumer again = flow.consumer(flow.group("broadcasting"), "broadcasting-0");
        again.setMessageModel(MessageModel.BROADCASTING);
        again.subscribe(topic, "*");
        List<String> rest = Flow.collect(again);
        again.start();
        flow.await("the next alone", () -> rest.size() >= 1);
        flow.say("after restart %s", rest);
        flow.say("connections %s", flow.admin.examineConsumerConnectionInfo(flow.group("broadcasting")).getMessageModel());
    }

    private static void orderly(Flow flow) throws Exception {
        String topic = flow.topic("", 1);
        for (int i = 0; i < 4; i++) {
            flow.send(topic, 0, "m" + i);
        }
        DefaultMQPushConsumer consumer = flow.consumer(flow.group("orderly"), "orderly");
        consumer.subscribe(topic, "*");
        consumer.setMaxReconsumeTimes(2);
        consumer.setSuspendCurrentQueueTimeMillis(50);
        List<String> got = Collections.synchronizedList(new ArrayList<>());
        consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
            MessageExt message = messages.get(0);
            got.add(Flow.text(message) + "#" + message.getReconsumeTimes());
            context.setSuspendCurrentQueueTimeMillis(30);
            if (Flow.text(message).equals("m1") && message.getReconsumeTimes() < 2) {
                return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
            }
            if (Flow.text(message).equals("m2")) { // until it is a dead letter
                return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
            }
            return ConsumeOrderlyStatus.SUCCESS;
        });
        consumer.start();
        flow.await("the last", () -> got.contains("m3#0"));
        flow.say("%s", got);
        flow.await("commit", () -> flow.admin.examineConsumeStats(flow.group("orderly"), topic).computeTotalDiff() == 0);
        var locked = flow.admin.getConsumerRunningInfo(flow.group("orderly"), clientId(flow, flow.group("orderly")), false).getMqTable();
        flow.say("locked %b", locked.get(new MessageQueue(topic, flow.brokerName, 0)).isLocked());
    }

    static String clientId(Flow flow, String group) throws Exception {
        return flow.admin.examineConsumerConnectionInfo(group).getConnectionSet().iterator().next().getClientId();
    }

    private static List<String> deadLetters(Flow flow, String group) throws Exception {
        var consumer = new org.apache.rocketmq.client.consumer.DefaultMQPullConsumer(flow.group("deadLetterReader"));
        consumer.setNamesrvAddr(flow.namesrv);
        consumer.setInstanceName("deadLetterReader");
        consumer.start();
        try {
            List<String> found = new ArrayList<>();
            MessageQueue queue = new MessageQueue("%DLQ%" + group, flow.brokerName, 0);
            var result = consumer.pull(queue, "*", 0, 32);
            if (result.getMsgFoundList() != null) {
                for (MessageExt message : result.getMsgFoundList()) {
                    found.add(Flow.text(message) + " times " + message.getReconsumeTimes() + " origin "
                        + (message.getProperty("ORIGIN_MESSAGE_ID") != null) + " topic "
                        + message.getProperty(MessageConst.PROPERTY_RETRY_TOPIC) + " dlq "
                        + message.getProperty("DLQ_ORIGIN_TOPIC") + " keys " + message.getKeys() + " tags "
                        + message.getTags() + " flag " + message.getSysFlag());
                }
            }
            return Flow.sorted(found);
        } finally {
            consumer.shutdown();
        }
    }

    private static void deadLetters(Flow flow) throws Exception {
        String topic = flow.topic("", 1);
        SubscriptionGroupConfig config = new SubscriptionGroupConfig();
        config.setGroupName(flow.group("deadLetters"));
        config.setRetryMaxTimes(1);
        config.setRetryQueueNums(1);
        flow.admin.createAndUpdateSubscriptionGroupConfig(flow.broker, config);
        DefaultMQPushConsumer consumer = flow.consumer(flow.group("deadLetters"), "deadLetters");
        consumer.setMaxReconsumeTimes(1);
        consumer.subscribe(topic, "*");
        List<String> got = Collections.synchronizedList(new ArrayList<>());
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            MessageExt message = messages.get(0);
            got.add(Flow.text(message) + "#" + message.getReconsumeTimes());
            context.setDelayLevelWhenNextConsume(Flow.text(message).equals("at once") ? -1 : 1);
            return ConsumeConcurrentlyStatus.RECONSUME_LATER;
        });
        consumer.start();
        flow.send(topic, 0, "m0");
        flow.send(topic, 0, "at once");
        flow.await("dead letters", () -> deadLetters(flow, flow.group("deadLetters")).size() == 2);
        flow.say("%s", Flow.sorted(got));
        deadLetters(flow, flow.group("deadLetters")).forEach(line -> flow.say("dead: %s", line));
    }

    private static void filtered(Flow flow) throws Exception {
        String topic = flow.topic("", 1);
        DefaultMQPushConsumer byTags = flow.consumer(flow.group("byTags"), "byTags");
        byTags.subscribe(topic, "TagA || TagC");
        List<String> tagged = Flow.collect(byTags);
        byTags.start();
        DefaultMQPushConsumer bySql = flow.consumer(flow.group("bySqlPush"), "bySqlPush");
        bySql.subscribe(topic, MessageSelector.bySql("n > 1 AND TAGS IN ('TagA', 'TagB')"));
        List<String> selected = Flow.collect(bySql);
        bySql.start();
        for (int i = 0; i < 6; i++) {
            var message = Flow.message(topic, List.of("TagA", "TagB", "TagC").get(i % 3), "m" + i);
            message.putUserProperty("n", "" + i);
            flow.producer.send(message);
        }
        flow.await("four and two", () -> tagged.size() == 4 && selected.size() == 2);
        flow.say("tags %s sql %s", Flow.sorted(tagged), Flow.sorted(selected));
        DefaultMQPushConsumer invalid = flow.consumer(flow.group("invalidSql"), "invalidSql");
        invalid.subscribe(topic, MessageSelector.bySql("n > > 1"));
        Flow.collect(invalid);
        flow.outcome("invalid expression", () -> {
            invalid.start();
            return "started";
        });
        DefaultMQPushConsumer byClass = flow.consumer(flow.group("byClass"), "byClass");
        byClass.subscribe(topic, "a.b.Filter", "public class Filter {}");
        List<String> none = Flow.collect(byClass);
        byClass.start();
        flow.await("class filter registered",
            () -> flow.admin.examineConsumerConnectionInfo(flow.group("byClass")).getSubscriptionTable().get(topic) != null);
        var subscription = flow.admin.examineConsumerConnectionInfo(flow.group("byClass")).getSubscriptionTable().get(topic);
        flow.say("class filter: %b %s %d", subscription.isClassFilterMode(), subscription.getSubString(), none.size());
    }

    private static void strategies(Flow flow) throws Exception {
        String topic = flow.topic("", 5);
        AllocateMessageQueueByMachineRoom room = new AllocateMessageQueueByMachineRoom();
        room.setConsumeridcs(Collections.singleton("elsewhere"));
        AllocateMessageQueueByConfig config = new AllocateMessageQueueByConfig();
        config.setMessageQueueList(List.of(new MessageQueue(topic, flow.brokerName, 3)));
        for (AllocateMessageQueueStrategy strategy : List.of(new AllocateMessageQueueAveragelyByCircle(),
            new AllocateMessageQueueConsistentHash(), room, config)) {
            String group = flow.group("") + strategy.getName();
            List<DefaultMQPushConsumer> members = new ArrayList<>();
            for (int i = 0; i < 2; i++) {
                DefaultMQPushConsumer member = flow.consumer(group, strategy.getName() + i);
                member.setClientIP("10.0.0." + i); // members of both systems have the same order and hashes
                member.setAllocateMessageQueueStrategy(strategy);
                member.subscribe(topic, "*");
                Flow.collect(member);
                member.start();
                members.add(member);
            }
            flow.await("members", () -> flow.admin.examineConsumerConnectionInfo(group).getConnectionSet().size() == 2);
            int all = strategy == room ? 0 : strategy == config ? 2 : 5;
            flow.await("shares", () -> shares(members, topic).values().stream().mapToInt(List::size).sum() == all
                && (all < 5 || shares(members, topic).values().stream().allMatch(share -> share.size() < 5)));
            flow.say("%s %s", strategy.getName(), strategy instanceof AllocateMessageQueueConsistentHash
                ? "all" : shares(members, topic).values());
            members.forEach(DefaultMQPushConsumer::shutdown);
        }
    }

    private static Map<String, List<Integer>> shares(List<DefaultMQPushConsumer> members, String topic) {
        Map<String, List<Integer>> shares = new TreeMap<>();
        for (DefaultMQPushConsumer member : members) {
            TreeSet<Integer> ids = new TreeSet<>();
            for (MessageQueue queue : member.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable()
                .keySet()) {
                if (queue.getTopic().equals(topic)) {
                    ids.add(queue.getQueueId());
                }
            }
            shares.put(member.getInstanceName(), new ArrayList<>(ids));
        }
        return shares;
    }

    private static void thresholds(Flow flow) throws Exception {
        String topic = flow.topic("", 1);
        for (int i = 0; i < 100; i++) {
            flow.send(topic, 0, "m" + i);
        }
        DefaultMQPushConsumer consumer = flow.consumer(flow.group("thresholds"), "thresholds");
        consumer.setPullThresholdForQueue(5);
        consumer.setPullBatchSize(7);
        consumer.setConsumeMessageBatchMaxSize(3);
        consumer.setConsumeConcurrentlyMaxSpan(10);
        consumer.setConsumeThreadMin(2);
        consumer.setConsumeThreadMax(2);
        consumer.subscribe(topic, "*");
        AtomicInteger most = new AtomicInteger();
        List<String> got = Collections.synchronizedList(new ArrayList<>());
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            most.accumulateAndGet(messages.size(), Math::max);
            messages.forEach(message -> got.add(Flow.text(message)));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        flow.await("all", () -> got.size() >= 100);
        flow.say("%d of them %d different, at most %d at once", got.size(), new TreeSet<>(got).size(), most.get());
    }

    private static void unitMode(Flow flow) throws Exception {
        String topic = flow.topic("", 1);
        DefaultMQPushConsumer consumer = flow.consumer(flow.group("unitMode"), "unitMode");
        consumer.setUnitMode(true);
        consumer.setUnitName("unit-1");
        consumer.setMaxReconsumeTimes(1);
        consumer.subscribe(topic, "*");
        List<String> got = Collections.synchronizedList(new ArrayList<>());
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            MessageExt message = messages.get(0);
            got.add(Flow.text(message) + "#" + message.getReconsumeTimes());
            context.setDelayLevelWhenNextConsume(1);
            return message.getReconsumeTimes() == 0 ? ConsumeConcurrentlyStatus.RECONSUME_LATER
                : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        flow.send(topic, 0, "m0");
        flow.await("twice", () -> got.size() == 2);
        flow.say("%s", got);
        var config = flow.admin.examineTopicConfig(flow.broker, "%RETRY%" + flow.group("unitMode"));
        flow.say("retry topic %d %d %d flag %d", config.getReadQueueNums(), config.getWriteQueueNums(),
            config.getPerm(), config.getTopicSysFlag());
        String id = clientId(flow, flow.group("unitMode"));
        flow.say("client id ends with unit: %b", id.endsWith("@unit-1"));
    }

    private static void disabledGroup(Flow flow) throws Exception {
        String topic = flow.topic("", 1);
        SubscriptionGroupConfig config = new SubscriptionGroupConfig();
        config.setGroupName(flow.group("disabled"));
        config.setConsumeEnable(false);
        flow.admin.createAndUpdateSubscriptionGroupConfig(flow.broker, config);
        flow.send(topic, 0, "m0");
        DefaultMQPushConsumer consumer = flow.consumer(flow.group("disabled"), "disabled");
        consumer.subscribe(topic, "*");
        List<String> got = Flow.collect(consumer);
        consumer.start();
        flow.await("member", () -> flow.admin.examineConsumerConnectionInfo(flow.group("disabled")) != null);
        Thread.sleep(500);
        flow.say("while disabled %s", got);
        config.setConsumeEnable(true);
        flow.admin.createAndUpdateSubscriptionGroupConfig(flow.broker, config);
        flow.await("enabled", () -> got.size() == 1);
        flow.say("enabled %s", got);
        config.setConsumeBroadcastEnable(false);
        flow.admin.createAndUpdateSubscriptionGroupConfig(flow.broker, config);
        var read = flow.admin.examineSubscriptionGroupConfig(flow.broker, flow.group("disabled"));
        flow.say("broadcast %b enabled %b", read.isConsumeBroadcastEnable(), read.isConsumeEnable());
    }

    private static void suspended(Flow flow) throws Exception {
        String topic = flow.topic("", 1);
        DefaultMQPushConsumer consumer = flow.consumer(flow.group("suspended"), "suspended");
        consumer.subscribe(topic, "*");
        List<String> got = Flow.collect(consumer);
        consumer.start();
        flow.send(topic, 0, "m0");
        flow.await("one", () -> got.size() == 1);
        consumer.suspend();
        flow.send(topic, 0, "m1");
        Thread.sleep(300);
        consumer.resume();
        flow.await("the other", () -> got.size() == 2);
        flow.say("%s", got);
        consumer.updateCorePoolSize(3);
        consumer.unsubscribe(topic);
        consumer.getDefaultMQPushConsumerImpl().getmQClientFactory().sendHeartbeatToAllBrokerWithLock();
        flow.await("unsubscribed", () -> !flow.admin.examineConsumerConnectionInfo(flow.group("suspended"))
            .getSubscriptionTable().containsKey(topic));
        Map<String, String> left = new ConcurrentSkipListMap<>();
        flow.admin.examineConsumerConnectionInfo(flow.group("suspended")).getSubscriptionTable()
            .forEach((name, data) -> left.put(name, data.getSubString()));
        flow.say("left %s", left);
    }
}
