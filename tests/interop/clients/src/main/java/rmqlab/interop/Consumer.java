package rmqlab.interop;

import java.nio.charset.StandardCharsets;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * A push consumer from the first offset on. Prints {@code STARTED}, then for each message
 * {@code <msgId> <queueId> <queueOffset> <storeHost> <reconsumeTimes> <body>}. Ends with 0 after {@code count}
 * messages, with 3 if they have not come within {@code timeoutMillis}. It waits {@code lingerMillis} more
 * after the last one, so that a second delivery of any of them is printed too. {@code namespace}, {@code accessKey}
 * and {@code secretKey} as for the Producer.
 */
public final class Consumer {
    public static void main(String[] words) throws Exception {
        Options options = new Options(words);
        int count = options.number("count", 1);
        CountDownLatch missing = new CountDownLatch(count);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(
            options.text("namespace", ""), options.text("group"), Accounts.hook(options));
        consumer.setNamesrvAddr(options.text("namesrv"));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setPullBatchSize(options.number("pullBatchSize", 32));
        consumer.setPullInterval(options.number("pullIntervalMillis", 0));
        consumer.setAwaitTerminationMillisWhenShutdown(10_000); // else the last message's offset may not be committed
        consumer.subscribe(options.text("topic"), options.text("tags", "*"));
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                print(message);
                missing.countDown();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        synchronized (Consumer.class) { // no message is printed before
            consumer.start();
            System.out.println("STARTED");
        }
        boolean complete = missing.await(options.number("timeoutMillis", 60_000), TimeUnit.MILLISECONDS);
        Thread.sleep(options.number("lingerMillis", 0));
        consumer.shutdown();
        System.exit(complete ? Options.DONE : Options.INCOMPLETE);
    }

    private static synchronized void print(MessageExt message) {
        System.out.println(message.getMsgId() + " " + message.getQueueId() + " " + message.getQueueOffset() + " "
            + message.getStoreHost().toString().replaceFirst("^.*/", "") + " " + message.getReconsumeTimes() + " "
            + new String(message.getBody(), StandardCharsets.UTF_8));
    }
}
