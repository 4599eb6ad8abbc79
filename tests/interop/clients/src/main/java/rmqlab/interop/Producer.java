package rmqlab.interop;

import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;

/**
 * Sends {@code count} messages one after the other, as the quickstart does, and prints one line for each:
 * {@code SEND_OK <msgId> <brokerName> <queueId> <queueOffset> <offsetMsgId>}, or {@code FAILED <exception>}.
 * With {@code namespace} it belongs to one; with {@code accessKey} and {@code secretKey} its requests are signed.
 * Message i has body {@code <prefix>-i}, tag TagA and key {@code <prefix>-i}, and delay level {@code delayLevel}
 * if that is given. Exit code 3 if a send failed.
 */
public final class Producer {
    public static void main(String[] words) throws Exception {
        Options options = new Options(words);
        String prefix = options.text("prefix", "m");
        DefaultMQProducer producer = new DefaultMQProducer(
            options.text("namespace", ""), options.text("group", "interop-producers"), Accounts.hook(options));
        producer.setNamesrvAddr(options.text("namesrv"));
        producer.setSendMsgTimeout(options.number("timeoutMillis", 20_000));
        producer.start();
        int failed = 0;
        for (int i = 0; i < options.number("count", 1); i++) {
            String name = prefix + "-" + i;
            byte[] body = name.getBytes(StandardCharsets.UTF_8);
            Message message = new Message(options.text("topic"), "TagA", name, body);
            if (options.number("delayLevel", 0) > 0) {
                message.setDelayTimeLevel(options.number("delayLevel", 0));
            }
            try {
                SendResult result = producer.send(message);
                System.out.println(result.getSendStatus() + " " + result.getMsgId() + " "
                    + result.getMessageQueue().getBrokerName() + " " + result.getMessageQueue().getQueueId() + " "
                    + result.getQueueOffset() + " " + result.getOffsetMsgId());
            } catch (Exception e) {
                failed++;
                System.out.println("FAILED " + e.toString().replace('\n', ' '));
            }
        }
        producer.shutdown();
        System.exit(failed == 0 ? Options.DONE : Options.INCOMPLETE);
    }
}
