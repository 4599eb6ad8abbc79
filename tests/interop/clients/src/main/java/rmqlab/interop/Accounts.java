package rmqlab.interop;

import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.remoting.RPCHook;

/** Signs requests where the options {@code accessKey} and {@code secretKey} are given. */
final class Accounts {
    private Accounts() {
    }

    static RPCHook hook(Options options) {
        String accessKey = options.text("accessKey", "");
        if (accessKey.isEmpty()) {
            return null;
        }
        return new AclClientRPCHook(new SessionCredentials(accessKey, options.text("secretKey")));
    }
}
