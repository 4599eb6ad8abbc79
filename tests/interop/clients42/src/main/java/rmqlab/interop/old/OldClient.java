package rmqlab.interop.old;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * {@code OldClient NAMESRV FEATURE COUNT}: sends COUNT messages {@code m-i} as the feature says, and consumes those
 * that it selects. Prints {@code GOT <body> <key> <bornTimestamp> <storeTimestamp>} for each, with those of one more
 * second. Features: sync, async, oneway, batch, delay (level 2), orderly (3 keys), tag (every second message has
 * TagB), sql (property a is i, and 10 to 19 are selected).
 */
public final class OldClient {
    private static final int PATIENCE = 90;

    private final String namesrv;
    private final String feature;
    private final int count;

    private OldClient(String[] words) {
        namesrv = words[0];
        feature = words[1];
        count = Integer.parseInt(words[2]);
    }

    public static void main(String[] words) throws Exception {
        OldClient client = new OldClient(words);
        client.send();
        client.consume();
        System.exit(0);
    }

    private void send() throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("old-" + feature);
        producer.setNamesrvAddr(namesrv);
        producer.setSendMsgTimeout(20_000);
        producer.start();
        List<Message> messages = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            messages.add(message(i));
        }
        switch (feature) {
            case "batch": stored(producer.send(messages)); break;
            case "async": sendAsync(producer, messages); break;
            case "orderly": sendByKey(producer, messages); break;
            case "oneway": sendOneway(producer, messages); break;
            default:
                for (Message message : messages) {
                    stored(producer.send(message));
                }
        }
        producer.shutdown();
    }

    private Message message(int i) {
        String tag = i % 2 == 0 ? "TagA" : "TagB";
        Message message = new Message(topic(), tag, "k" + i % 3, ("m-" + i).getBytes(StandardCharsets.UTF_8));
        message.putUserProperty("a", String.valueOf(i));
        if (feature.equals("delay")) {
            message.setDelayTimeLevel(2);
        }
        return message;
    }

    private void sendAsync(DefaultMQProducer producer, List<Message> messages) throws Exception {
        CountDownLatch missing = new CountDownLatch(messages.size());
        for (Message message : messages) {
            producer.send(message, new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    stored(result);
                    missing.countDown();
                }

                @Override
                public void onException(Throwable e) {
                    System.out.println("FAILED " + e);
                }
            });
        }
        if (!missing.await(PATIENCE, TimeUnit.SECONDS)) {
            throw new IllegalStateException(missing.getCount() + " messages are not stored");
        }
    }

    private static void sendByKey(DefaultMQProducer producer, List<Message> messages) throws Exception {
        for (Message message : messages) {
            stored(producer.send(message, (queues, sent, key) ->
                queues.get(Math.abs(key.hashCode()) % queues.size()), message.getKeys()));
        }
    }

    private static void sendOneway(DefaultMQProducer producer, List<Message> messages) throws Exception {
        stored(producer.send(messages.get(0))); // creates the topic
        for (Message message : messages.subList(1, messages.size())) {
            producer.sendOneway(message);
        }
        Thread.sleep(1000); // shutdown closes the connection at once
    }

    private static void stored(SendResult result) {
        if (result.getSendStatus() != SendStatus.SEND_OK) {
            throw new IllegalStateException(result.toString());
        }
    }

    private void consume() throws Exception {
        int expected = feature.equals("sql") ? 10 : feature.equals("tag") ? count / 2 : count;
        CountDownLatch missing = new CountDownLatch(expected);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("read-" + topic());
        consumer.setNamesrvAddr(namesrv);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        if (feature.equals("sql")) {
            consumer.subscribe(topic(), MessageSelector.bySql("a BETWEEN 10 AND 19"));
        } else {
            consumer.subscribe(topic(), feature.equals("tag") ? "TagB" : "*");
        }
        if (feature.equals("orderly")) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                print(messages, missing);
                return ConsumeOrderlyStatus.SUCCESS;
            });
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                print(messages, missing);
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
        }
        consumer.start();
        if (!missing.await(PATIENCE, TimeUnit.SECONDS)) {
            throw new IllegalStateException(missing.getCount() + " messages have not arrived");
        }
        Thread.sleep(1000);
        consumer.shutdown();
    }

    private static synchronized void print(List<MessageExt> messages, CountDownLatch missing) {
        for (MessageExt message : messages) {
            System.out.println("GOT " + new String(message.getBody(), StandardCharsets.UTF_8) + " " + message.getKeys()
                + " " + message.getBornTimestamp() + " " + message.getStoreTimestamp());
            missing.countDown();
        }
    }

    private String topic() {
        return System.getProperty("topic.prefix", "Old") + "-" + feature;
    }
}
