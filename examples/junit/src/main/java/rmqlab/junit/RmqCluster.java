package rmqlab.junit;

import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import org.junit.jupiter.api.extension.ExtendWith;

/**
 * Gives a test a RocketMQ cluster of its own, as a parameter of type {@link Cluster}.
 *
 * <p>On a class, it holds for each of its tests. The cluster stops when the test ends.
 */
@Target({ElementType.METHOD, ElementType.TYPE})
@Retention(RetentionPolicy.RUNTIME)
@ExtendWith(RmqClusterExtension.class)
public @interface RmqCluster {
    /** The role of the masters. */
    Role role() default Role.ASYNC_MASTER;

    /** Broker groups: a master and its slaves each. */
    int groups() default 1;

    /** Slaves of each master. */
    int slaves() default 1;

    /** Broker settings, such as {@code "enablePropertyFilter=true"}. */
    String[] settings() default {};

    /** Whether a master waits for a slave before it acknowledges a send. */
    enum Role { SYNC_MASTER, ASYNC_MASTER }
}
