package rmqlab.interop;

import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;

/**
 * {@code threads} threads send batch after batch of {@code batch} messages with {@code size} bytes each, until the
 * program is killed. Prints {@code STARTED} after the first batch, and a line for every one that failed.
 */
public final class BatchProducer {
    public static void main(String[] words) throws Exception {
        Options options = new Options(words);
        int threads = options.number("threads", 8);
        int perSend = options.number("batch", 16);
        String topic = options.text("topic");
        byte[] body = new byte[options.number("size", 128)];
        DefaultMQProducer producer = new DefaultMQProducer("interop-batches");
        producer.setNamesrvAddr(options.text("namesrv"));
        producer.setSendMsgTimeout(options.number("timeoutMillis", 20_000));
        producer.start();
        producer.send(batch(topic, body, perSend));
        System.out.println("STARTED");
        for (int i = 0; i < threads; i++) {
            new Thread(() -> {
                while (true) {
                    try {
                        producer.send(batch(topic, body, perSend));
                    } catch (Exception e) {
                        System.out.println("FAILED " + e);
                    }
                }
            }).start();
        }
    }

    private static List<Message> batch(String topic, byte[] body, int count) {
        List<Message> messages = new ArrayList<>(count);
        for (int i = 0; i < count; i++) {
            messages.add(new Message(topic, body));
        }
        return messages;
    }
}
