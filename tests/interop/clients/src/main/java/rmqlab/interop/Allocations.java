package rmqlab.interop;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMachineRoomNearby;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragelyByCircle;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByMachineRoom;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueConsistentHash;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Prints what each strategy gives each member of groups of up to {@code members} members, for topics of up to
 * {@code queues} queues at two brokers: {@code <strategy> <members> <queues> <member>: <broker>/<queue> ...}.
 * Queue ids alternate between the brokers {@code room-1@a} and {@code room-2@b}; odd members are of room 1.
 */
public final class Allocations {
    public static void main(String[] words) {
        Options options = new Options(words);
        for (int members = 1; members <= options.number("members", 5); members++) {
            List<String> ids = new ArrayList<>();
            for (int i = 1; i <= members; i++) {
                ids.add("10.0.0." + i + "@" + i);
            }
            for (int queues = 1; queues <= options.number("queues", 9); queues++) {
                List<MessageQueue> all = new ArrayList<>();
                for (int i = 0; i < queues; i++) {
                    all.add(new MessageQueue("orders", i % 2 == 0 ? "room-1@a" : "room-2@b", i));
                }
                Collections.sort(all);
                print("averagely", new AllocateMessageQueueAveragely(), ids, all);
                print("circle", new AllocateMessageQueueAveragelyByCircle(), ids, all);
                print("hash", new AllocateMessageQueueConsistentHash(), ids, all);
                AllocateMessageQueueByMachineRoom room = new AllocateMessageQueueByMachineRoom();
                room.setConsumeridcs(Collections.singleton("room-1"));
                print("room", room, ids, all);
                print("nearby", nearby(), ids, all);
            }
        }
        System.exit(Options.DONE);
    }

    private static AllocateMessageQueueStrategy nearby() {
        return new AllocateMachineRoomNearby(new AllocateMessageQueueAveragely(),
            new AllocateMachineRoomNearby.MachineRoomResolver() {
                @Override
                public String brokerDeployIn(MessageQueue queue) {
                    return queue.getBrokerName().split("@")[0];
                }

                @Override
                public String consumerDeployIn(String id) {
                    return Integer.parseInt(id.substring(id.indexOf('@') + 1)) % 2 == 1 ? "room-1" : "room-3";
                }
            });
    }

    private static void print(String name, AllocateMessageQueueStrategy strategy, List<String> ids,
        List<MessageQueue> all) {
        for (String id : ids) {
            StringBuilder line = new StringBuilder(name + " " + ids.size() + " " + all.size() + " " + id + ":");
            for (MessageQueue queue : strategy.allocate("group", id, all, ids)) {
                line.append(' ').append(queue.getBrokerName()).append('/').append(queue.getQueueId());
            }
            System.out.println(line);
        }
    }
}
