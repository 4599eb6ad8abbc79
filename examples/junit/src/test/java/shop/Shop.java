package shop;

import java.nio.charset.StandardCharsets;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;

/** The application under test: it sends orders until they are on two disks, and ships each order once. */
final class Shop implements AutoCloseable {
    private final String namesrvAddr;
    private final DefaultMQProducer producer = new DefaultMQProducer("shop");
    private final Set<String> shipped = ConcurrentHashMap.newKeySet();
    private DefaultMQPushConsumer consumer;

    Shop(String namesrvAddr) throws MQClientException {
        this.namesrvAddr = namesrvAddr;
        producer.setNamesrvAddr(namesrvAddr);
        producer.start();
    }

    /** Sends an order again until master and slave have it. Returns the number of attempts. */
    int order(String id) throws InterruptedException {
        for (int attempt = 1; ; attempt++) {
            try {
                Message message = new Message("orders", null, id, id.getBytes(StandardCharsets.UTF_8));
                if (producer.send(message).getSendStatus() == SendStatus.SEND_OK) {
                    return attempt;
                }
            } catch (InterruptedException e) {
                throw e;
            } catch (Exception e) {
                Thread.sleep(100); // no master: try again
            }
        }
    }

    void startShipping() throws MQClientException {
        consumer = new DefaultMQPushConsumer("shipping");
        consumer.setNamesrvAddr(namesrvAddr);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe("orders", "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(message -> shipped.add(new String(message.getBody(), StandardCharsets.UTF_8)));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
    }

    Set<String> shipped() {
        return shipped;
    }

    @Override
    public void close() {
        producer.shutdown();
        if (consumer != null) {
            consumer.shutdown();
        }
    }
}
