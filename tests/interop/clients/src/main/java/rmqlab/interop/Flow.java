package rmqlab.interop;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.Callable;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/**
 * What the flows share: a producer, the admin client, topics with a number of queues, and printed lines that begin with
 * the name of the flow. Lines have no times, ids or addresses, so that they are the same for every system.
 */
final class Flow implements AutoCloseable {
    static final long PATIENCE_MILLIS = 40_000;

    final String name;
    final String run;
    final String namesrv;
    final String broker;
    final String brokerName;
    final DefaultMQProducer producer;
    final DefaultMQAdminExt admin;
    private final List<Runnable> endings = new ArrayList<>();

    Flow(String name, Options options) throws Exception {
        this.name = name;
        run = options.text("run");
        namesrv = options.text("namesrv");
        broker = options.text("broker");
        brokerName = options.text("brokerName", "broker-a");
        producer = new DefaultMQProducer("P_" + name);
        producer.setNamesrvAddr(namesrv);
        producer.setInstanceName(name);
        producer.setSendMsgTimeout(20_000);
        producer.start();
        admin = new DefaultMQAdminExt(20_000);
        admin.setNamesrvAddr(namesrv);
        admin.setInstanceName("admin-" + name);
        admin.start();
    }

    void say(String format, Object... values) {
        System.out.println(name + ": " + String.format(format, values).replace(run, ""));
    }

    /** Makes a topic of the flow, and waits for its route. */
    String topic(String suffix, int queues) throws Exception {
        String topic = "F_" + name + suffix + run;
        admin.createAndUpdateTopicConfig(broker, new TopicConfig(topic, queues, queues, 6));
        await("route of " + topic, () -> admin.examineTopicRouteInfo(topic).getQueueDatas().size() == 1);
        return topic;
    }

    /** The name of a group of this run. */
    String group(String suffix) {
        return "CG_" + suffix + run;
    }

    SendResult send(String topic, int queue, String body) throws Exception {
        return producer.send(message(topic, "TagA", body), new MessageQueue(topic, brokerName, queue));
    }

    static Message message(String topic, String tags, String body) {
        return new Message(topic, tags, "key-" + body, body.getBytes(StandardCharsets.UTF_8));
    }

    static String text(Message message) {
        return new String(message.getBody(), StandardCharsets.UTF_8);
    }

    /** A push consumer from the first offset on, without listener; shut down at the end. */
    DefaultMQPushConsumer consumer(String group, String instance) {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(namesrv);
        consumer.setInstanceName(instance);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setPollNameServerInterval(500); // else its retry topic may be found after 30 s
        consumer.setAwaitTerminationMillisWhenShutdown(10_000);
        atEnd(consumer::shutdown);
        return consumer;
    }

    void atEnd(Runnable ending) {
        endings.add(ending);
    }

    /** Waits until a fact holds; an exception of the check means "not yet". */
    void await(String what, Callable<Boolean> check) throws Exception {
        long deadline = System.currentTimeMillis() + PATIENCE_MILLIS;
        Object last = null;
        while (System.currentTimeMillis() < deadline) {
            try {
                if (check.call()) {
                    return;
                }
                last = null;
            } catch (Exception e) {
                last = e;
            }
            Thread.sleep(20);
        }
        throw new IllegalStateException(name + ": not in time: " + what + (last == null ? "" : ", last: " + last));
    }

    /** Prints what a call returns or how it fails, by class and code: texts of brokers are their own. */
    void outcome(String label, Callable<Object> call) {
        try {
            say("%s: %s", label, call.call());
        } catch (MQBrokerException e) {
            say("%s: MQBrokerException %d", label, e.getResponseCode());
        } catch (MQClientException e) {
            say("%s: MQClientException %d", label, e.getResponseCode());
        } catch (Exception e) {
            say("%s: %s", label, e.getClass().getSimpleName());
        }
    }

    /** Lets a consumer succeed, and returns the list to which it adds the bodies of its messages. */
    static List<String> collect(DefaultMQPushConsumer consumer) {
        List<String> got = Collections.synchronizedList(new ArrayList<>());
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(message -> got.add(text(message)));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        return got;
    }

    static List<String> sorted(Iterable<String> texts) {
        List<String> all = new ArrayList<>();
        texts.forEach(all::add);
        Collections.sort(all);
        return all;
    }

    @Override
    public void close() {
        Collections.reverse(endings);
        endings.forEach(Runnable::run);
        producer.shutdown();
        admin.shutdown();
    }
}
