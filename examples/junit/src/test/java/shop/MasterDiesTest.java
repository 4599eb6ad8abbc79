package shop;

import static java.util.stream.Collectors.toSet;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static rmqlab.junit.RmqCluster.Role.SYNC_MASTER;

import java.time.Duration;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import rmqlab.junit.Cluster;
import rmqlab.junit.RmqCluster;

@RmqCluster(role = SYNC_MASTER)
@Timeout(value = 3, unit = TimeUnit.MINUTES, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class MasterDiesTest {
    @Test
    void ordersAreShippedFromTheSlaveAndNewOnesWaitForTheMaster(Cluster cluster) throws Exception {
        cluster.waitUntil("slave-in-sync broker-a");
        try (Shop shop = new Shop(cluster.namesrvAddr())) {
            for (String id : orders(0, 50)) {
                shop.order(id);
            }
            cluster.awaitTopic("broker-a:slave", "orders"); // else the slave could not serve it
            cluster.kill("broker-a:master");
            cluster.waitUntil("route-gone broker-a:master");

            shop.startShipping();
            awaitShipped(shop, orders(0, 50)); // all of them come from the slave

            CompletableFuture<Integer> waiting = CompletableFuture.supplyAsync(() -> orderUnchecked(shop, "order-50"));
            cluster.start("broker-a:master");
            assertTrue(waiting.get(60, TimeUnit.SECONDS) > 1, "the first attempt met no master");
            for (String id : orders(51, 60)) {
                shop.order(id);
            }
            awaitShipped(shop, orders(0, 60));
        }
    }

    @Test
    void whatIsImpossibleNamesWhatIsPossible(Cluster cluster) {
        AssertionError wrongState = assertThrows(AssertionError.class, () -> cluster.start("broker-a:master"));
        assertTrue(wrongState.getMessage().contains("409: broker-a is already ready"), wrongState.getMessage());
        AssertionError unknown = assertThrows(AssertionError.class, () -> cluster.kill("broker-b"));
        assertTrue(unknown.getMessage().contains("did you mean broker-a?"), unknown.getMessage());
    }

    private static Set<String> orders(int from, int to) {
        return IntStream.range(from, to).mapToObj(number -> "order-" + number).collect(toSet());
    }

    private static void awaitShipped(Shop shop, Set<String> expected) {
        assertTimeoutPreemptively(Duration.ofSeconds(60), () -> {
            while (!shop.shipped().containsAll(expected)) {
                Thread.sleep(50);
            }
        });
        assertEquals(expected, shop.shipped());
    }

    private static int orderUnchecked(Shop shop, String id) {
        try {
            return shop.order(id);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }
}
