package rmqlab.interop;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;

/**
 * {@code threads} threads send batch after batch of {@code batch} messages with {@code size} bytes each, for
 * {@code seconds} after as many of warming up. Prints {@code <messages sent in all> <messages a second> <sends
 * failed>}; the rate is that of the time after the warming up.
 */
public final class BatchProducer {
    public static void main(String[] words) throws Exception {
        Options options = new Options(words);
        int threads = options.number("threads", 8);
        int perSend = options.number("batch", 16);
        long millis = options.number("seconds", 10) * 1000L;
        String topic = options.text("topic");
        byte[] body = new byte[options.number("size", 128)];
        DefaultMQProducer producer = new DefaultMQProducer("interop-batches");
        producer.setNamesrvAddr(options.text("namesrv"));
        producer.setSendMsgTimeout(options.number("timeoutMillis", 20_000));
        producer.start();
        AtomicLong sent = new AtomicLong();
        AtomicLong failed = new AtomicLong();
        AtomicBoolean running = new AtomicBoolean(true);
        CountDownLatch ended = new CountDownLatch(threads);
        for (int i = 0; i < threads; i++) {
            new Thread(() -> {
                while (running.get()) {
                    List<Message> messages = new ArrayList<>(perSend);
                    for (int j = 0; j < perSend; j++) {
                        messages.add(new Message(topic, body));
                    }
                    try {
                        producer.send(messages);
                        sent.addAndGet(perSend);
                    } catch (Exception e) {
                        failed.incrementAndGet();
                    }
                }
                ended.countDown();
            }).start();
        }
        Thread.sleep(millis);
        long before = sent.get();
        long began = System.nanoTime();
        Thread.sleep(millis);
        long rate = Math.round((sent.get() - before) * 1e9 / (System.nanoTime() - began));
        running.set(false);
        ended.await();
        System.out.println(sent.get() + " " + rate + " " + failed.get());
        producer.shutdown();
        System.exit(Options.DONE);
    }
}
