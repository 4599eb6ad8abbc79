package rmqlab.interop;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Runs the {@code flows}, separated by commas, one after the other, at {@code namesrv} and {@code broker}. Each prints
 * lines without times, ids or addresses: the same lines for every system that behaves alike. Topics and groups end with
 * {@code run}, which is not printed, so that flows can be run again.
 */
public final class Flows {
    interface Steps {
        void run(Flow flow) throws Exception;
    }

    public static void main(String[] words) throws Exception {
        System.setProperty("rocketmq.client.localOffsetStoreDir", System.getProperty("java.io.tmpdir") + "/offsets");
        System.setProperty("rocketmq.client.rebalance.waitInterval", "500");
        Options options = new Options(words);
        Map<String, Steps> flows = new LinkedHashMap<>();
        PullFlows.addTo(flows);
        PushFlows.addTo(flows);
        AdminFlows.addTo(flows);
        SendFlows.addTo(flows);
        List<String> wanted = List.of(options.text("flows").split(","));
        boolean failed = false;
        for (Map.Entry<String, Steps> entry : flows.entrySet()) {
            if (wanted.contains(entry.getKey())) {
                try (Flow flow = new Flow(entry.getKey(), options)) {
                    entry.getValue().run(flow);
                } catch (Exception e) {
                    failed = true;
                    System.out.println(entry.getKey() + ": FAILED " + e);
                    e.printStackTrace();
                }
            }
        }
        System.exit(failed ? Options.INCOMPLETE : Options.DONE);
    }
}
