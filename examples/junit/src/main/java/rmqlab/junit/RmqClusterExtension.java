package rmqlab.junit;

import java.util.Optional;
import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;
import org.junit.platform.commons.support.AnnotationSupport;

/** Starts the cluster when a test asks for it, and stops it after the test. */
public final class RmqClusterExtension implements ParameterResolver, AfterEachCallback {
    private static final ExtensionContext.Namespace OURS = ExtensionContext.Namespace.create(RmqClusterExtension.class);

    @Override
    public boolean supportsParameter(ParameterContext parameter, ExtensionContext context) {
        return parameter.getParameter().getType() == Cluster.class;
    }

    @Override
    public Object resolveParameter(ParameterContext parameter, ExtensionContext context) {
        return context.getStore(OURS)
            .getOrComputeIfAbsent(Cluster.class, ignored -> Cluster.start(optionsOf(context)), Cluster.class);
    }

    @Override
    public void afterEach(ExtensionContext context) {
        Cluster cluster = context.getStore(OURS).remove(Cluster.class, Cluster.class);
        if (cluster == null) {
            return;
        }
        cluster.close();
        if (context.getExecutionException().isPresent()) {
            System.err.println("logs and journals of the cluster of " + context.getDisplayName() + ": " + cluster.home());
        } else {
            cluster.deleteFiles();
        }
    }

    private static RmqCluster optionsOf(ExtensionContext context) {
        Optional<RmqCluster> found = AnnotationSupport.findAnnotation(context.getElement(), RmqCluster.class);
        return found.or(() -> AnnotationSupport.findAnnotation(context.getTestClass(), RmqCluster.class)).orElseThrow();
    }
}
