package rmqlab.interop;

import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;

/**
 * Sends {@code count} messages of {@code size} bytes, {@code batch} in each send, one send after the other.
 * Prints {@code <messages> <nanoseconds>}, the time from the second send to the last. Exit code 3 if a send was
 * not SEND_OK; with {@code anyStatus=1}, that is no failure, for a master without its slave.
 */
public final class Filler {
    public static void main(String[] words) throws Exception {
        Options options = new Options(words);
        int count = options.number("count", 1);
        int perSend = options.number("batch", 32);
        boolean anyStatus = options.number("anyStatus", 0) == 1;
        DefaultMQProducer producer = new DefaultMQProducer("interop-fillers");
        producer.setNamesrvAddr(options.text("namesrv"));
        producer.setSendMsgTimeout(options.number("timeoutMillis", 20_000));
        producer.start();
        byte[] body = new byte[options.number("size", 128)];
        boolean failed = false;
        long begin = 0;
        for (int sent = 0; sent < count; sent += perSend) {
            List<Message> messages = new ArrayList<>(perSend);
            for (int i = 0; i < Math.min(perSend, count - sent); i++) {
                messages.add(new Message(options.text("topic"), body));
            }
            boolean stored = producer.send(messages).getSendStatus() == SendStatus.SEND_OK;
            failed |= !stored && !anyStatus;
            if (begin == 0) {
                begin = System.nanoTime(); // the first one looked up the route and connected
            }
        }
        System.out.println((count - perSend) + " " + (System.nanoTime() - begin));
        producer.shutdown();
        System.exit(failed ? Options.INCOMPLETE : Options.DONE);
    }
}
