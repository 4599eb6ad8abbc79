package rmqlab.interop;

import java.nio.charset.StandardCharsets;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Sends one transactional message for each of {@code outcomes}, a list with commas; the message's body and key are
 * its outcome. {@code commit} and {@code rollback} end at once; {@code late-commit} and {@code late-rollback} when
 * the broker asks; {@code slow-commit} is left open at the first question. Prints {@code SENT <outcome> <state>} for
 * each, then {@code CHECKED <outcome> <topic> <queueId> <times>} for each question, until {@code checks} of them have
 * come (3 if they have not within {@code timeoutMillis}).
 */
public final class TransactionProducer {
    public static void main(String[] words) throws Exception {
        Options options = new Options(words);
        CountDownLatch missing = new CountDownLatch(options.number("checks", 0));
        TransactionMQProducer producer = new TransactionMQProducer(options.text("group", "interop-transactions"));
        producer.setNamesrvAddr(options.text("namesrv"));
        producer.setSendMsgTimeout(20_000);
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object outcome) {
                switch ((String) outcome) {
                    case "commit": return LocalTransactionState.COMMIT_MESSAGE;
                    case "rollback": return LocalTransactionState.ROLLBACK_MESSAGE;
                    default: return LocalTransactionState.UNKNOW;
                }
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                String outcome = new String(message.getBody(), StandardCharsets.UTF_8);
                String times = message.getUserProperty("TRANSACTION_CHECK_TIMES");
                System.out.println("CHECKED " + outcome + " " + message.getTopic() + " " + message.getQueueId() + " "
                    + times);
                missing.countDown();
                switch (outcome) {
                    case "late-rollback": return LocalTransactionState.ROLLBACK_MESSAGE;
                    case "slow-commit": if ("1".equals(times)) return LocalTransactionState.UNKNOW;
                    default: return LocalTransactionState.COMMIT_MESSAGE;
                }
            }
        });
        producer.start();
        for (String outcome : options.text("outcomes").split(",")) {
            byte[] body = outcome.getBytes(StandardCharsets.UTF_8);
            Message message = new Message(options.text("topic"), "TagA", outcome, body);
            System.out.println("SENT " + outcome + " "
                + producer.sendMessageInTransaction(message, outcome).getLocalTransactionState());
        }
        boolean complete = missing.await(options.number("timeoutMillis", 60_000), TimeUnit.MILLISECONDS);
        Thread.sleep(options.number("lingerMillis", 500)); // answers are oneway requests, sent by other threads
        producer.shutdown();
        System.exit(complete ? Options.DONE : Options.INCOMPLETE);
    }
}
