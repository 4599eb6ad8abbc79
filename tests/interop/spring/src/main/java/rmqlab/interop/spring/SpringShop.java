package rmqlab.interop.spring;

import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.spring.annotation.ConsumeMode;
import org.apache.rocketmq.spring.annotation.RocketMQMessageListener;
import org.apache.rocketmq.spring.annotation.RocketMQTransactionListener;
import org.apache.rocketmq.spring.annotation.SelectorType;
import org.apache.rocketmq.spring.core.RocketMQListener;
import org.apache.rocketmq.spring.core.RocketMQLocalTransactionListener;
import org.apache.rocketmq.spring.core.RocketMQLocalTransactionState;
import org.apache.rocketmq.spring.core.RocketMQReplyListener;
import org.apache.rocketmq.spring.core.RocketMQTemplate;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.messaging.Message;
import org.springframework.messaging.support.MessageBuilder;
import org.springframework.stereotype.Component;

/**
 * Sends with RocketMQTemplate and listens with annotations. Prints {@code GOT <listener> <payload>} for each message,
 * {@code REPLY <payload>} for the reply to a request, and {@code DONE} when {@code COUNT} messages have arrived;
 * exit code 3 if they have not. {@code rocketmq.name-server} and {@code rocketmq.producer.group} come from the command
 * line.
 */
@SpringBootApplication
public class SpringShop {
    /** 10 sync, 10 async, 10 orderly, 5 of 10 by SQL92, 1 delayed, 2 of 3 transactions. */
    private static final int COUNT = 38;
    private static final int PATIENCE = 120;
    private static final CountDownLatch MISSING = new CountDownLatch(COUNT);

    public static void main(String[] words) throws Exception {
        try (ConfigurableApplicationContext context = SpringApplication.run(SpringShop.class, words)) {
            send(context.getBean(RocketMQTemplate.class));
            boolean complete = MISSING.await(PATIENCE, TimeUnit.SECONDS);
            Thread.sleep(1000); // for a second delivery
            System.out.println(complete ? "DONE" : "MISSING " + MISSING.getCount());
            System.exit(complete ? 0 : 3);
        }
    }

    private static void send(RocketMQTemplate template) throws Exception {
        for (int i = 0; i < 10; i++) {
            stored(template.syncSend("SpringSync", "s-" + i));
            stored(template.syncSendOrderly("SpringOrderly", "o-" + i, "one key"));
            stored(template.syncSend("SpringSql", MessageBuilder.withPayload("q-" + i).setHeader("a", i).build()));
            template.asyncSend("SpringSync", "a-" + i, new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    stored(result);
                }

                @Override
                public void onException(Throwable e) {
                    System.out.println("FAILED " + e);
                }
            });
        }
        stored(template.syncSend("SpringSync", MessageBuilder.withPayload("d-0").build(), 20_000, 1)); // after 1 s
        for (String outcome : new String[] {"commit", "rollback", "late-commit"}) {
            template.sendMessageInTransaction("SpringTransactions", MessageBuilder.withPayload(outcome).build(), outcome);
        }
        System.out.println("REPLY " + template.sendAndReceive("SpringRequests", "ping", String.class, 90_000));
    }

    private static void stored(SendResult result) {
        if (result.getSendStatus() != SendStatus.SEND_OK) {
            throw new IllegalStateException(result.toString());
        }
    }

    private static synchronized void got(String listener, String payload) {
        System.out.println("GOT " + listener + " " + payload);
        MISSING.countDown();
    }

    @Component
    @RocketMQMessageListener(topic = "SpringSync", consumerGroup = "spring-sync")
    static class SyncListener implements RocketMQListener<String> {
        @Override
        public void onMessage(String payload) {
            got("sync", payload);
        }
    }

    @Component
    @RocketMQMessageListener(topic = "SpringOrderly", consumerGroup = "spring-orderly", consumeMode = ConsumeMode.ORDERLY)
    static class OrderlyListener implements RocketMQListener<String> {
        @Override
        public void onMessage(String payload) {
            got("orderly", payload);
        }
    }

    @Component
    @RocketMQMessageListener(
        topic = "SpringSql", consumerGroup = "spring-sql", selectorType = SelectorType.SQL92, selectorExpression = "a >= 5")
    static class SqlListener implements RocketMQListener<String> {
        @Override
        public void onMessage(String payload) {
            got("sql", payload);
        }
    }

    @Component
    @RocketMQMessageListener(topic = "SpringTransactions", consumerGroup = "spring-transactions")
    static class CommittedListener implements RocketMQListener<String> {
        @Override
        public void onMessage(String payload) {
            got("transaction", payload);
        }
    }

    @Component
    @RocketMQMessageListener(topic = "SpringRequests", consumerGroup = "spring-requests")
    static class ReplyListener implements RocketMQReplyListener<String, String> {
        @Override
        public String onMessage(String payload) {
            return payload + "-pong";
        }
    }

    @RocketMQTransactionListener
    static class Decisions implements RocketMQLocalTransactionListener {
        @Override
        public RocketMQLocalTransactionState executeLocalTransaction(Message message, Object outcome) {
            switch ((String) outcome) {
                case "commit": return RocketMQLocalTransactionState.COMMIT;
                case "rollback": return RocketMQLocalTransactionState.ROLLBACK;
                default: return RocketMQLocalTransactionState.UNKNOWN;
            }
        }

        @Override
        public RocketMQLocalTransactionState checkLocalTransaction(Message message) {
            return RocketMQLocalTransactionState.COMMIT;
        }
    }
}
